"""`credo infer`, `credo compare`, `credo info`."""

import math

import pytest

import credo
from credo.inference.problem.base import algorithms


def test_infer_prints_one_line_per_state(run, asia):
    answer = run("infer", asia, "enumerate", "--evidence", "dysp=yes", "--query", "lung")
    truth = credo.infer(credo.datasets.asia(), "enumerate", evidence={"dysp": "yes"})
    assert answer.status == 0
    assert answer.err == ""
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["lung", "no", f"{truth.marginals['lung'][0]:.6f}"] in lines
    assert ["lung", "yes", f"{truth.marginals['lung'][1]:.6f}"] in lines
    assert not any(line[:1] == ["tub"] for line in lines)


def test_infer_without_a_method_says_what_it_chose(run, asia):
    answer = run("infer", asia, "--json").json
    assert answer["method"].partition("(")[0] in credo.algorithms()
    assert answer["notes"]
    assert set(answer["marginals"]) == set(credo.datasets.asia().variables.names)


def test_infer_json_holds_marginals_and_log_z(run, asia):
    found = run("infer", asia, "enumerate", "-e", "dysp=yes", "-e", "asia=1", "--json").json
    truth = credo.infer(credo.datasets.asia(), "enumerate", evidence={"dysp": "yes", "asia": "yes"})
    assert found["log_z"] == {"value": pytest.approx(truth.log_z.value), "kind": "exact"}
    assert found["marginals"]["asia"] == {"no": 0.0, "yes": 1.0}
    assert found["marginals"]["tub"]["yes"] == pytest.approx(truth.marginals["tub"][1])
    assert (found["status"], found["converged"]) == ("exact", True)


def test_likelihoods_are_soft_evidence(run, asia):
    found = run("infer", asia, "enumerate", "-e", "xray=0.2,0.8", "--json").json
    truth = credo.infer(credo.datasets.asia(), "enumerate", evidence={"xray": [0.2, 0.8]})
    assert found["marginals"]["xray"]["yes"] == pytest.approx(truth.marginals["xray"][1])


def test_an_evidence_file_is_evidence_too(run, square, write):
    found = run("infer", square, "enumerate", "-e", write("square.evid", "1 0 1"), "--json").json
    assert found["marginals"]["x1"] == {"0": pytest.approx(3 / 7), "1": pytest.approx(4 / 7)}


def test_maximise_all_is_map_and_names_are_marginal_map(run, square):
    best = run("infer", square, "enumerate", "--maximise", "all", "--json").json
    assert best["assignment"] == {"x0": "1", "x1": "1"}
    assert best["log_z"]["value"] == pytest.approx(math.log(4))
    best = run("infer", square, "enumerate", "--maximise", "x1", "--json").json
    assert best["assignment"] == {"x1": "1"}
    assert best["log_z"]["value"] == pytest.approx(math.log(6))
    assert "x1        1" in run("infer", square, "enumerate", "--maximise", "x1").out


def test_names_with_a_comma_give_their_joint_table(run, square):
    answer = run("infer", square, "enumerate", "--query", "x1,x0", "--json").json
    assert answer["marginals"] == {}
    (joint,) = answer["joints"]
    assert joint["variables"] == ["x1", "x0"]
    assert joint["table"] == [pytest.approx([0.1, 0.3]), pytest.approx([0.2, 0.4])]
    assert "1   0      0.200000" in run("infer", square, "enumerate", "--query", "x1,x0").out


def test_states_and_names_with_special_characters_can_be_observed(run, tmp_path):
    model = credo.FactorGraph({"a=b": ["x,y", "0.5,0.5"], "c": ["=", "#"]}, {("a=b", "c"): [[1, 2], [3, 4]]})
    path = tmp_path / "odd.json"
    credo.save(model, path)
    found = run("infer", path, "enumerate", "-e", "a=b=0.5,0.5", "--json").json
    assert found["marginals"]["a=b"] == {"x,y": 0.0, "0.5,0.5": 1.0}
    found = run("infer", path, "enumerate", "-e", "c==", "--json").json
    assert found["marginals"]["a=b"]["x,y"] == pytest.approx(0.25)


def test_compare_prints_the_aligned_table(run, asia):
    answer = run("compare", asia, "enumerate", "enumerate(max_entries=4)", "-e", "dysp=yes")
    assert answer.status == 0
    header, first, second = answer.out.splitlines()
    assert header.split()[:3] == ["method", "seconds", "iters"]
    assert first.startswith("enumerate ") and first.endswith("exact")
    assert "refused: the joint table has 2^7.0 entries" in second


def test_compare_json_and_every_method_by_default(run, asia):
    rows = run("compare", asia, "--json").json
    assert {row["method"] for row in rows} == {
        n for n, known in algorithms.entries().items() if not known.compiles and known.groups[0] == "tables"
    }
    assert all(row["max_tv"] < 1e-10 for row in rows if row["kind"] == "exact" and row["max_tv"] is not None)


def test_compare_where_nobody_answers_is_an_error(run, asia):
    answer = run("compare", asia, "enumerate(max_entries=4)")
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith(
        "credo: no method could treat this problem: enumerate(max_entries=4): "
        "the joint table has 2^8.0 entries, more than max_entries=4"
    )
    assert "'junction-tree'" in answer.err


def test_info_counts_what_is_there(run, asia):
    facts = run("info", asia, "--json").json
    assert facts["model"] == "BayesNet"
    assert (facts["variables"], facts["factors"], facts["edges"]) == (8, 8, 16)
    assert facts["states"] == {"min": 2, "max": 2, "total": 16}
    assert (facts["largest_scope"], facts["largest_table"], facts["table_entries"]) == (3, 8, 36)
    assert (facts["parts"], facts["shape"], facts["neighbours"]) == (1, "loopy", 10)
    assert facts["width"] == 2
    assert facts["gigabytes"] < 1e-5


def test_info_knows_chains_trees_and_parts(run, tmp_path):
    def facts(model):
        credo.save(model, tmp_path / "m.json")
        return run("info", tmp_path / "m.json", "--json").json

    pair = [[1, 2], [3, 4]]
    chain = credo.FactorGraph(dict.fromkeys("abc", 2), {("a", "b"): pair, ("b", "c"): pair})
    star = credo.FactorGraph(dict.fromkeys("abcd", 2), {("a", "b"): pair, ("a", "c"): pair, ("a", "d"): pair})
    parts = credo.FactorGraph(dict.fromkeys("abcd", 2), {("a", "b"): pair, ("c", "d"): pair})
    assert [facts(m)["shape"] for m in (chain, star, parts)] == ["chain", "tree", "forest"]
    assert [facts(m)["parts"] for m in (chain, star, parts)] == [1, 1, 2]
    assert facts(chain)["width"] == 1


def test_info_is_readable_and_evidence_narrows_it(run, asia):
    lines = dict(line.split(None, 1) for line in run("info", asia, "-e", "either=yes").out.splitlines())
    assert lines["variables"] == "8 (1 observed)"
    assert lines["states"] == "1 to 2 per variable, 15 in all"
    # Left are the chain asia - tub - lung - smoke - bronc - dysp and the X-ray.
    assert lines["structure"] == "forest, 2 connected parts, 5 pairs of neighbours"
    assert lines["junction"].startswith("tree  width")


def test_info_forecasts_what_is_far_too_large_to_allocate(run, tmp_path):
    credo.save(credo.datasets.ising_grid(40), tmp_path / "wide.uai")
    facts = run("info", tmp_path / "wide.uai", "--json").json
    assert facts["width"] >= 40
    assert facts["gigabytes"] > 1000
