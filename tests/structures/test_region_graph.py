"""Region graphs: counting numbers, validity, message sets, builders, loops and faces."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import MissingExtraError, ModelError, OptionError, TooLargeError, UnsupportedError
from credo.structures import (
    Region,
    RegionGraph,
    UndirectedGraph,
    bethe_regions,
    cluster_variation,
    is_tree_exact,
    is_tree_robust,
    junction_regions,
    loop_basis,
    loop_edge_node,
    planar_faces,
    primal_graph,
    region_graph,
    star_triangles,
)
from credo.structures.cycles import blocks, loop_edges
from credo.structures.region_builders import REGIONS
from seeds import each_seed
from zoo import ZOO, Case


def grid(rows: int, columns: int | None = None, **options) -> FactorGraph:
    return credo.datasets.ising_grid(rows, columns, **options).to_factor_graph()


def complete(n: int) -> FactorGraph:
    return credo.datasets.complete_ising(n).to_factor_graph()


def undirected(*edges: str) -> UndirectedGraph:
    return UndirectedGraph.from_edges(map(tuple, edges))


def by_level(regions: RegionGraph) -> tuple[list[int], list[set[int]]]:
    sizes = np.bincount(regions.levels).tolist()
    return sizes, [set(regions.counting[regions.levels == k].tolist()) for k in range(len(sizes))]


@pytest.mark.parametrize(("n", "sizes"), [(3, [4, 4, 1]), (5, [16, 24, 9]), (10, [81, 144, 64])])
def test_faces_of_a_grid_have_the_known_counts(n, sizes):
    assert by_level(region_graph(grid(n), "faces")) == (sizes, [{1}, {-1}, {1}])


def test_the_outer_face_adds_the_rim():
    found = region_graph(grid(5), "all-faces", max_entries=2**16)
    assert by_level(found) == ([17, 36, 21], [{1}, {-1}, {1}])


@pytest.mark.parametrize(("n", "sizes", "counts"), [(9, [28, 8, 1], (-6, 21)), (16, [105, 15, 1], (-13, 91))])
def test_star_triangles_have_the_known_counts(n, sizes, counts):
    assert by_level(region_graph(complete(n), "star")) == (sizes, [{1}, {counts[0]}, {counts[1]}])


def test_the_levels_miscount_a_known_example_and_all_intersections_do_not():
    six = FactorGraph({f"x{i}": 2 for i in range(1, 7)})
    roots = [(0, 1, 2), (1, 2, 3), (2, 4, 5)]
    with pytest.raises(
        ModelError, match=r"expected everything to be counted once, but variable 'x3' is counted 2"
    ):
        cluster_variation(six, roots)
    repaired = cluster_variation(six, roots, repair=True)
    assert repaired.is_valid
    assert {r.variables for r in repaired.regions} == {*roots, (1, 2), (2,)}
    assert repaired.counting.tolist() == [1, 1, 1, -1, -1]


def test_all_intersections_are_valid_where_levels_often_are_not():
    rng, invalid = np.random.default_rng(0), 0
    for _ in range(100):
        scopes = [tuple(sorted(rng.choice(7, 3, replace=False).tolist())) for _ in range(5)]
        names = [f"x{i}" for i in range(7)]
        graph = FactorGraph(
            dict.fromkeys(names, 2), {tuple(names[i] for i in s): np.ones((2, 2, 2)) for s in set(scopes)}
        )
        assert cluster_variation(graph, scopes, intersections="all").is_valid
        try:
            cluster_variation(graph, scopes)
        except ModelError:
            invalid += 1
    assert 30 < invalid < 90


def test_a_factor_that_is_not_counted_once_is_named():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    twice = RegionGraph(
        graph, [Region((0, 1), (0,)), Region((0, 1), (0,)), Region((0, 1), ())], [(0, 2), (1, 2)]
    )
    assert not twice.is_valid
    with pytest.raises(ModelError, match=r"factor 0 over \['a', 'b'\] is counted 2 times"):
        twice.check()


def test_a_region_needs_the_variables_of_its_factors():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    with pytest.raises(ModelError, match="region 0: it holds factor 0 but not its variable 'b'"):
        RegionGraph(graph, [Region((0,), (0,))], [])


def test_an_edge_leads_to_a_proper_part():
    graph = FactorGraph({"a": 2, "b": 2})
    with pytest.raises(ModelError, match="expected region 1 to be a proper part of its parent 0"):
        RegionGraph(graph, [Region((0,), ()), Region((1,), ())], [(0, 1)])


def two_by_three() -> RegionGraph:
    """Variables 1 .. 6 in two rows, the three loops (outer one included), seven edges, six variables."""
    names = [str(i) for i in range(1, 7)]
    scopes = ["12", "23", "14", "25", "36", "45", "56"]
    graph = FactorGraph(dict.fromkeys(names, 2), {tuple(s): np.ones((2, 2)) for s in scopes})
    return loop_edge_node(graph, planar_faces(primal_graph(graph), infinite=True))


def test_messages_of_the_two_by_three_grid_depend_on_the_known_sets():
    regions = two_by_three()
    at = {"".join(regions.names(r)): r for r in range(len(regions)) if r not in regions.roots}
    assert by_level(regions)[0] == [3, 7, 6]
    inner = [r for r in regions.roots if len(regions.regions[r].variables) == 4]
    left = next(r for r in inner if "1" in regions.names(r))
    right = next(r for r in inner if "3" in regions.names(r))
    assert set(regions.parents[at["25"]]) == {left, right}
    expected = {(left, at["25"]), (right, at["25"]), (at["12"], at["2"]), (at["23"], at["2"])}
    assert set(regions.numerator(at["25"], at["5"])) == expected
    assert regions.denominator(at["25"], at["5"]) == []
    sources = {i for i, _ in regions.entering(at["25"])}
    assert sources == {left, right, at["12"], at["23"], at["45"], at["56"]}


def test_the_denominator_leaves_out_the_message_itself():
    regions = region_graph(grid(4), "faces")
    face = regions.roots[4]
    edge = regions.children[face][0]
    node = next(n for n in regions.children[edge])
    below = regions.denominator(face, edge)
    assert below and (face, edge) not in below
    assert all(j in regions.descendants[edge] | {edge} for _, j in below)
    assert (edge, node) not in below


def test_cluster_variation_of_the_three_loops_is_another_graph():
    graph = two_by_three().graph
    found = cluster_variation(graph, planar_faces(primal_graph(graph), infinite=True), view="loops")
    assert {len(r.variables) for r, level in zip(found.regions, found.levels, strict=True) if level == 1} == {
        2,
        4,
    }
    assert found.is_valid


def test_bethe_regions_count_variables_by_their_degree():
    graph = grid(3)
    found = bethe_regions(graph)
    degree = primal_graph(graph).degrees
    for r in range(len(found)):
        scope = found.regions[r].variables
        assert found.counting[r] == (1 if len(scope) == 2 else 1 - degree[scope[0]])


def test_junction_tree_regions_form_a_forest():
    found = junction_regions(credo.datasets.asia().to_factor_graph())
    assert found.is_forest
    assert found.is_valid
    assert set(found.counting.tolist()) == {1, -1}


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_every_builder_is_valid_on_the_zoo_or_refuses(case: Case, name: str):
    try:
        found = region_graph(case.graph, name)
    except UnsupportedError as refusal:
        assert name in ("star", "faces", "all-faces")
        assert "use regions=" in str(refusal)
        return
    assert found.is_valid
    for p, r in found.edges:
        assert found.regions[r].nodes < found.regions[p].nodes


def test_the_automatic_choice_follows_the_graph():
    assert repr(region_graph(grid(4))) == repr(region_graph(grid(4), "faces"))
    assert repr(region_graph(complete(6))) == repr(region_graph(complete(6), "star"))
    chain = credo.datasets.ising_grid(1, 5).to_factor_graph()
    assert repr(region_graph(chain)) == repr(bethe_regions(chain))
    bipartite = FactorGraph({n: 2 for n in "abcxyz"}, {(i, j): np.ones((2, 2)) for i in "abc" for j in "xyz"})
    assert repr(region_graph(bipartite)) == repr(region_graph(bipartite, "loops"))


def test_regions_from_names_are_completed_by_intersections():
    graph = grid(2, 3)
    found = region_graph(graph, [["x0", "x1", "x3", "x4"], ["x1", "x2", "x4", "x5"]])
    assert by_level(found) == ([2, 1], [{1}, {-1}])
    assert found.find(["x4", "x1"]) == [2]
    assert found.names(2) == ("x1", "x4")


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ([["x0", "x1"]], "expected every variable in a region, but 'x2' is in none"),
        ([["x0", "x1"], ["x2", "x3"]], r"factor \d over \['x0', 'x2'\] is in none"),
        (["x0", "x1"], "expected sets of variable names, got the text 'x0'"),
    ],
)
def test_regions_from_names_must_cover_everything(regions, message):
    with pytest.raises(ModelError, match=message):
        region_graph(grid(2), regions)


def test_unknown_choices_are_refused():
    with pytest.raises(OptionError, match="regions must be one of"):
        region_graph(grid(2), "squares")
    with pytest.raises(OptionError, match=r"max_entries must be a whole number, got 2\.5"):
        region_graph(grid(2), max_entries=2.5)
    with pytest.raises(OptionError, match="view must be one of"):
        cluster_variation(grid(2), [], view="edges")
    with pytest.raises(OptionError, match="intersections must be one of"):
        cluster_variation(grid(2), [], intersections="some")


def test_long_loops_are_split_into_triangles():
    ring = FactorGraph.from_arrays(np.full(30, 2), ([(i, (i + 1) % 30) for i in range(30)], np.ones((2, 2))))
    found = region_graph(ring)
    assert max(len(r.variables) for r in found.regions) == 3
    assert found.is_forest


def test_idle_regions_are_dropped_and_binding_ones_kept():
    graph = FactorGraph(
        {n: 2 for n in "abcd"}, {p: np.ones((2, 2)) for p in (("a", "b"), ("a", "c"), ("a", "d"))}
    )
    fan = cluster_variation(graph, [(0, 1, 2), (0, 2, 3)], intersections="all")
    assert fan.without_idle() is fan
    idle = loop_edge_node(graph, [])
    assert (idle.counting != 0).sum() == len(idle.without_idle())
    square = FactorGraph({n: 2 for n in "abcde"})
    regions = [Region((0, 1), ()), Region((0, 2), ()), Region((0,), ()), Region((0, 1, 3), ())]
    chain = RegionGraph(square, regions, [(0, 2), (1, 2), (3, 0)])
    assert chain.counting[
        [len(r.variables) == 2 and r.variables == (0, 1) for r in chain.regions]
    ].tolist() == [0]
    smaller = chain.without_idle()
    assert {r.variables for r in smaller.regions} == {(0, 1, 3), (0, 2), (0,)}
    assert len(smaller.edges) == 2


def test_blocks_and_bridges():
    two_triangles = undirected("ab", "bc", "ca", "cd", "de", "ef", "fd")
    assert sorted(map(len, blocks(two_triangles))) == [1, 3, 3]
    assert len(loop_basis(two_triangles)) == 2
    assert planar_faces(two_triangles) is not None
    assert blocks(undirected("ab", "bc")) == [[(1, 2)], [(0, 1)]]


def rank_mod_2(loops, edges) -> int:
    rows = [sum(1 << edges.index(e) for e in loop_edges(loop)) for loop in loops]
    rank = 0
    while rows:
        row = rows.pop()
        if row:
            rank += 1
            low = row & -row
            rows = [r ^ row if r & low else r for r in rows]
    return rank


@each_seed(range(8))
def test_loop_bases_have_full_rank_and_cover_every_edge_on_a_loop(seed):
    graph = primal_graph(credo.datasets.erdos_renyi_ising(14, 0.25, seed=seed).to_factor_graph())
    loops, edges = loop_basis(graph), [tuple(e) for e in graph.edge_positions.tolist()]
    parts = len(np.unique(credo.structures.connected_components(graph)))
    assert len(loops) == graph.n_edges - len(graph) + parts == rank_mod_2(loops, edges)
    bridges = {part[0] for part in blocks(graph) if len(part) == 1}
    assert set().union(*map(loop_edges, loops)) == set(edges) - bridges
    assert all(len(set(loop)) == len(loop) and loop_edges(loop) <= set(edges) for loop in loops)


def test_faces_of_planar_graphs_agree_with_euler():
    pytest.importorskip("networkx")
    wheel = undirected(*(f"h{c}" for c in "abcde"), "ab", "bc", "cd", "de", "ea")
    assert len(planar_faces(wheel)) == wheel.n_edges - len(wheel) + 1
    assert len(planar_faces(wheel, infinite=True)) == wheel.n_edges - len(wheel) + 2
    five = undirected(*map("".join, itertools.combinations("abcde", 2)))
    assert planar_faces(five) is None


def test_a_grid_needs_no_networkx_and_other_graphs_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert len(planar_faces(primal_graph(grid(3)))) == 4
    assert planar_faces(undirected("ab", "bc", "cd", "da")) == [(0, 3, 2, 1)]
    diamond = undirected("ab", "bc", "cd", "da", "ac")
    with pytest.raises(MissingExtraError, match=r"planar faces: need networkx unless the graph is a grid"):
        planar_faces(diamond)
    graph = FactorGraph(dict.fromkeys("abcd", 2), {pair: np.ones((2, 2)) for pair in diamond.edges()})
    assert repr(region_graph(graph)) == repr(region_graph(graph, "loops"))


def test_grid_faces_are_those_networkx_finds():
    pytest.importorskip("networkx")
    direct = primal_graph(grid(3, 4))
    order = np.random.default_rng(0).permutation(12)
    ends = order[direct.edge_positions]
    shuffled = UndirectedGraph.from_positions([f"x{i}" for i in range(12)], ends[:, 0], ends[:, 1])
    for infinite in (False, True):
        expected = {frozenset(order[list(face)].tolist()) for face in planar_faces(direct, infinite=infinite)}
        assert {frozenset(f) for f in planar_faces(shuffled, infinite=infinite)} == expected


def test_faces_and_stars_are_tree_robust_and_some_bases_are_not():
    square = primal_graph(grid(3))
    assert is_tree_robust(square, planar_faces(square))
    five = undirected(*map("".join, itertools.combinations("abcde", 2)))
    assert is_tree_robust(five, star_triangles(five, "c"))
    # The three squares of four joined variables: each edge lies on two of them.
    four = undirected(*map("".join, itertools.combinations("abcd", 2)))
    squares = [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)]
    assert not is_tree_robust(four, squares)
    assert not is_tree_exact([(0, 1, 2), (0, 1, 2)], [(0, 1)])


def test_tree_robustness_is_refused_for_graphs_with_many_trees():
    with pytest.raises(TooLargeError, match=r"about 1e\+08 spanning trees, more than max_trees=20000"):
        is_tree_robust(primal_graph(complete(10)), [])


def test_star_triangles_need_a_complete_graph():
    with pytest.raises(UnsupportedError, match="expected a complete graph with 6 edges, got 4"):
        star_triangles(primal_graph(grid(2)))
    with pytest.raises(UnsupportedError, match="the graph is not planar; use regions='loops'"):
        region_graph(complete(5), "faces")
