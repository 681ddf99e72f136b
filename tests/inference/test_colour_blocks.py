"""Blocks of variables that share no factor."""

from __future__ import annotations

import numpy as np
import pytest

import credo
import hybrid_zoo
from credo.inference.problem.colour_blocks import colour_blocks
from zoo import case

GRAPHS = {
    "grid": case("grid 2x4").graph,
    "complete": case("complete graph").graph,
    "wide factors": case("four-way factors").graph,
    "no factors": case("no factors").graph,
    "hybrid": hybrid_zoo.switching_loop().to_factor_graph(),
    "cycle": hybrid_zoo.gaussian_loop().to_factor_graph(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_chosen_variable_is_in_one_block_with_all_its_factors(name: str):
    graph = GRAPHS[name]
    n = len(graph.variables)
    for chosen in (np.ones(n, dtype=bool), graph.variables.sizes > 0, np.arange(n) % 2 == 0):
        blocks = colour_blocks(graph, chosen)
        inside = blocks.members[blocks.members < n]
        assert sorted(inside.tolist()) == np.flatnonzero(chosen).tolist()
        met = []
        for meeting in blocks.meetings:
            group = graph.batches[meeting.group]
            for b, s in np.argwhere(meeting.slots < blocks.members.shape[1]):
                row = meeting.rows[b, s]
                i = blocks.members[b, meeting.slots[b, s]]
                assert group.scopes[row, meeting.axis] == i
                met.append((int(group.factors[row]), int(i)))
        expected = [(a, int(i)) for a, scope in enumerate(graph.scopes) for i in scope if chosen[i]]
        assert sorted(met) == sorted(expected)
        for members in blocks.members:
            own = set(members[members < n].tolist())
            assert all(len(own & set(scope.tolist())) <= 1 for scope in graph.scopes)


def test_a_chain_needs_two_blocks_and_nothing_none():
    chain = credo.GaussianNet(np.eye(6) + 0.1 * (np.eye(6, k=1) + np.eye(6, k=-1))).to_factor_graph()
    assert len(colour_blocks(chain, np.ones(6, dtype=bool)).members) == 2
    assert colour_blocks(chain, np.zeros(6, dtype=bool)).members.shape == (0, 0)
