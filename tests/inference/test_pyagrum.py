"""Posteriors of real networks against pyAgrum, an independent exact library.

The tables are handed over through its API in double precision; its file readers round to single.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import credo
from credo import datasets

gum = pytest.importorskip("pyagrum")

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "bif"
REAL = ["asia", "alarm", "insurance", "hailfinder", "win95pts", "hepar2"]


def network(name):
    if name.startswith("random"):
        return datasets.random_bayes_net(25, states=np.arange(25) % 3 + 2, seed=int(name[-1]))
    path = FOLDER / f"{name}.bif.gz"
    if path.is_file():
        return credo.load(path)
    if name == "asia":
        return datasets.asia()
    pytest.skip("no shared data beside the repository")


def handed_over(model):
    """The same network as pyAgrum's own object; states become positions."""
    net = gum.BayesNet()
    for variable in model.variables:
        net.add(gum.LabelizedVariable(variable.name, variable.name, variable.size))
    for child, parents in model.parents.items():
        for parent in parents:
            net.addArc(parent, child)
    for child, parents in model.parents.items():
        cpt, mine = net.cpt(child), [*parents, child]
        # Its tables run through their first variable fastest.
        axes = [mine.index(n) for n in reversed(cpt.names)]
        cpt.fillWith(np.asarray(model.tables[child]).transpose(axes).ravel().tolist())
    return net


def evidences(model, count):
    """States of some variables of one sample: they have positive probability together."""
    rng = np.random.default_rng(0)
    rows = credo.sample(model, count, seed=1).indices
    names = np.array(model.variables.names)
    for k, row in enumerate(rows):
        seen = rng.permutation(len(names))[: 1 + 3 * k]
        yield {str(names[i]): int(row[i]) for i in seen}


@pytest.mark.parametrize("name", [*REAL, "random 1", "random 2"])
def test_all_posteriors_equal_those_of_pyagrum(name):
    model = network(name)
    net = handed_over(model)
    for evidence in ({}, *evidences(model, 4)):
        theirs = gum.LazyPropagation(net)
        theirs.setEvidence(evidence)
        theirs.makeInference()
        ours = credo.infer(model, "junction-tree", evidence=evidence)
        for variable in model.variables.names:
            expected = theirs.posterior(variable).toarray()
            np.testing.assert_allclose(ours.marginals[variable], expected, rtol=0, atol=1e-9)
        if evidence:
            assert ours.log_z.value == pytest.approx(np.log(theirs.evidenceProbability()), abs=1e-9)


@pytest.mark.parametrize("name", ["asia", "random 1"])
def test_joint_posteriors_equal_those_of_pyagrum(name):
    model = network(name)
    net = handed_over(model)
    names = list(model.variables.names)
    pair, seen = (names[1], names[-2]), {names[3]: 1}
    theirs = gum.LazyPropagation(net)
    theirs.addJointTarget(set(pair))
    theirs.setEvidence(seen)
    theirs.makeInference()
    expected = theirs.jointPosterior(set(pair))
    sizes = [model.variables[names.index(n)].size for n in pair]
    table = np.array([[expected[dict(zip(pair, x, strict=True))] for x in row] for row in _states(*sizes)])
    np.testing.assert_allclose(credo.query(model, pair, evidence=seen).table, table, rtol=0, atol=1e-9)


def _states(rows, columns):
    return [[(i, j) for j in range(columns)] for i in range(rows)]
