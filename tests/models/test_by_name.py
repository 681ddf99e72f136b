"""Models to be learned, by name."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import CredoError
from credo.core.errors import ConvergenceWarning
from credo.core.registry import summary_of
from credo.models import FactorAnalysis
from credo.models.by_name import BLANKS


@pytest.mark.parametrize("name", BLANKS.names())
def test_every_entry_says_what_its_function_says(name):
    assert summary_of(BLANKS.find(name)) == BLANKS.contents[name].summary
    assert BLANKS.describe(name)["name"] == name


def test_names_make_the_blanks_of_python():
    edges = [("rain", "wet"), ("sprinkler", "wet")]
    net = credo.BayesNet.from_edges(edges)
    assert BLANKS.make("bayes-net", edges="rain->wet,sprinkler->wet") == net
    assert BLANKS.make("bayes_net(edges=[rain -> wet, sprinkler -> wet])") == net
    assert BLANKS.make("bayes-net", edges=edges) == net
    assert BLANKS.make("hmm(3)") == BLANKS.make("hmm(states=3)") == credo.HMM.blank(3)
    mixed = BLANKS.make("hmm(2, emission={'hr': 'gaussian', 'alarm': 'categorical'}, components=2)")
    assert mixed == credo.HMM.blank(2, {"hr": "gaussian", "alarm": "categorical"}, components=2)
    assert BLANKS.make("mixture(4, emission=diagonal)") == credo.Mixture.blank(4, "diagonal")
    assert BLANKS.make("factor-analysis(2)") == FactorAnalysis(2)
    chains = BLANKS.make("factorial-hmm(states=[2, 3], emission=additive)")
    assert chains == credo.FactorialHMM(states=[2, 3], emission="additive")


def test_chains_and_lone_names_are_edges_too():
    net = BLANKS.make("bayes-net", edges="a->b->c, d")
    assert net.edges == [("a", "b"), ("b", "c")] and net.nodes == ("a", "d", "b", "c")
    assert BLANKS.make("bayes-net") == credo.BayesNet.from_edges()
    hidden = BLANKS.make("bayes-net", edges="h->x", states={"h": 2, "x": "real"})
    assert hidden == credo.BayesNet.from_edges([("h", "x")], {"h": 2, "x": credo.Real()})


@pytest.mark.parametrize(
    ("spec", "more", "sentence"),
    [
        ("hnm(3)", {}, "no model to be learned named 'hnm'; did you mean 'hmm'"),
        (
            "bayes-net",
            {"edges": "a->,b"},
            "edges: expected a text such as 'rain->wet, sprinkler->wet', got 'a->,b'",
        ),
        ("bayes-net", {"edges": "a->b->a"}, "cycle"),
        ("bayes-net(edges=3)", {}, "edges: expected pairs (parent, child), got 3"),
        ("bayes-net", {"states": ["a"]}, "states: expected a mapping such as {'coin': 2}, got"),
        ("bayes-net(edges=a)", {"edges": "b"}, "edges is given twice, in brackets and beside them"),
        ("hmm", {}, "hmm: missing a required argument: 'states'; its arguments are"),
        ("mixture(2, parts=3)", {}, "mixture: got an unexpected keyword argument 'parts'"),
    ],
)
def test_what_makes_no_model_gets_a_sentence(spec, more, sentence):
    with pytest.raises(CredoError) as caught:
        BLANKS.make(spec, **more)
    assert sentence in str(caught.value)


def test_blanks_of_documents_units_and_segments_are_known_by_name_and_read_files(tmp_path):
    rng = np.random.default_rng(0)
    credo.data.write_table({name: rng.poisson(2, 12).tolist() for name in "abcde"}, tmp_path / "words.csv")
    credo.data.write_table({name: rng.integers(2, size=12).tolist() for name in "abc"}, tmp_path / "bits.csv")
    with pytest.warns(ConvergenceWarning):
        machine = credo.fit(BLANKS.make("rbm(2)"), tmp_path / "bits.csv", max_iter=3).model
    assert repr(machine) == "RBM(3 visible units, 2 hidden units)"
    topics = BLANKS.make("topic-model(2)")
    assert (topics.topics, topics.read_batch(tmp_path / "words.csv").vocabulary) == (2, 5)
    assert BLANKS.make("semi-markov(2, durations=[2, 5], emission=poisson)").states == 2
