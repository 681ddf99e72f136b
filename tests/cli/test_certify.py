"""`credo certify`."""

import pytest

import credo


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.uai"
    credo.save(credo.datasets.ising_grid(3, coupling=0.2, seed=0), path)
    return str(path)


def test_a_guarantee_is_a_table_and_a_sentence(run, grid):
    ran = run("certify", grid, "--method", "alpha-bp(alpha=0.8)")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["condition", "value", "limit", "holds", "meaning"]
    assert [line[:22].strip() for line in lines[1:5]] == [
        "largest singular value",
        "largest column sum",
        "largest row sum",
        "spectral radius",
    ]
    assert all("yes" in line for line in lines[1:5])
    assert "(Theorem 3.1)" in lines[1]
    assert lines[-1].startswith(
        "alpha-bp(alpha=0.8) is guaranteed to converge, to the same point from every start: largest singular"
    )


def test_json_holds_the_numbers(run, grid):
    found = run("certify", grid, "--json").json
    assert found["method"] == "bp"
    assert found["guaranteed"] is True
    by_name = {c["name"]: c for c in found["certificates"]}
    assert by_name["Simon's condition"]["value"] == pytest.approx(4 * 0.4)
    assert by_name["loops"] == {
        "name": "loops",
        "holds": False,
        "value": 4.0,
        "threshold": 1.0,
        "meaning": "ends after finitely many sweeps with exact marginals",
    }


def test_evidence_counts(run, asia):
    assert "no condition holds" in run("certify", asia).out
    assert "bp is exact here" in run("certify", asia, "--evidence", "bronc=yes").out


def test_what_cannot_be_tested_has_a_dash(run, asia):
    line = next(x for x in run("certify", asia).out.splitlines() if x.startswith("spectral radius"))
    assert line.split()[2] == "unknown"
    assert "expected positive weights, got a zero" in line


def test_other_methods_are_refused_in_one_sentence(run, grid):
    ran = run("certify", grid, "--method", "junction-tree")
    assert ran.status == 1
    assert ran.err == (
        "credo: junction-tree: expected a method of the message-passing family "
        "(bp, trw, fractional-bp, alpha-bp), got one without certificates\n"
    )
