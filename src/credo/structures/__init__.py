"""Graphs made from graphs: separation, cliques, recognisers, conversions, elimination, junction trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .cliques import is_chordal, maximal_cliques, maximum_cardinality_search, perfect_elimination_order
    from .colouring import independent_sets
    from .conversions import one_factor_per_edge, to_clique_factors, to_pairwise, without_constants
    from .cycles import is_tree_exact, is_tree_robust, loop_basis, star_triangles
    from .directed import DirectedGraph, moralise
    from .elimination import EliminationOrder, elimination_order, induced_width
    from .graph import UndirectedGraph, connected_components, primal_graph
    from .independence import Statement, independencies, independent, is_i_map
    from .junction_tree import JunctionTree, junction_tree
    from .layers import Layers, dense_layers
    from .mini_buckets import MiniBuckets, mini_bucket_order, mini_buckets
    from .planar import planar_faces
    from .recognise import (
        bipartition,
        chain_order,
        immoralities,
        is_binary,
        is_bipartite,
        is_chain,
        is_dag_representable,
        is_directed_tree,
        is_forest,
        is_pairwise,
        is_polytree,
        is_tree,
        is_undirected_representable,
    )
    from .region_builders import (
        bethe_regions,
        cluster_variation,
        junction_regions,
        loop_edge_node,
        region_graph,
    )
    from .regions import Region, RegionGraph
    from .separation import (
        FactorSplit,
        d_connected,
        d_separated,
        is_markov_blanket,
        markov_blanket,
        reachable,
        separated,
        split_factors,
    )
    from .spanning_trees import (
        Forests,
        appearance,
        covering_forests,
        edge_appearance,
        given_forests,
        random_forests,
        spanning_forest,
        uniform_appearance,
        uniform_forest,
    )
    from .tree_conversions import (
        DirectedTables,
        directed_tree_to_undirected,
        polytree_to_factor_graph,
        tree_from_marginals,
        undirected_tree_to_directed,
    )

__all__ = [
    "DirectedGraph",
    "DirectedTables",
    "EliminationOrder",
    "FactorSplit",
    "Forests",
    "JunctionTree",
    "Layers",
    "MiniBuckets",
    "Region",
    "RegionGraph",
    "Statement",
    "UndirectedGraph",
    "appearance",
    "bethe_regions",
    "bipartition",
    "chain_order",
    "cluster_variation",
    "connected_components",
    "covering_forests",
    "d_connected",
    "d_separated",
    "dense_layers",
    "directed_tree_to_undirected",
    "edge_appearance",
    "elimination_order",
    "given_forests",
    "immoralities",
    "independencies",
    "independent",
    "independent_sets",
    "induced_width",
    "is_binary",
    "is_bipartite",
    "is_chain",
    "is_chordal",
    "is_dag_representable",
    "is_directed_tree",
    "is_forest",
    "is_i_map",
    "is_markov_blanket",
    "is_pairwise",
    "is_polytree",
    "is_tree",
    "is_tree_exact",
    "is_tree_robust",
    "is_undirected_representable",
    "junction_regions",
    "junction_tree",
    "loop_basis",
    "loop_edge_node",
    "markov_blanket",
    "maximal_cliques",
    "maximum_cardinality_search",
    "mini_bucket_order",
    "mini_buckets",
    "moralise",
    "one_factor_per_edge",
    "perfect_elimination_order",
    "planar_faces",
    "polytree_to_factor_graph",
    "primal_graph",
    "random_forests",
    "reachable",
    "region_graph",
    "separated",
    "spanning_forest",
    "split_factors",
    "star_triangles",
    "to_clique_factors",
    "to_pairwise",
    "tree_from_marginals",
    "undirected_tree_to_directed",
    "uniform_appearance",
    "uniform_forest",
    "without_constants",
]


furnish(
    __name__,
    {
        "cliques": (
            "is_chordal",
            "maximal_cliques",
            "maximum_cardinality_search",
            "perfect_elimination_order",
        ),
        "colouring": ("independent_sets",),
        "conversions": ("one_factor_per_edge", "to_clique_factors", "to_pairwise", "without_constants"),
        "cycles": ("is_tree_exact", "is_tree_robust", "loop_basis", "star_triangles"),
        "directed": ("DirectedGraph", "moralise"),
        "elimination": ("EliminationOrder", "elimination_order", "induced_width"),
        "graph": ("UndirectedGraph", "connected_components", "primal_graph"),
        "independence": ("Statement", "independencies", "independent", "is_i_map"),
        "junction_tree": ("JunctionTree", "junction_tree"),
        "layers": ("Layers", "dense_layers"),
        "mini_buckets": ("MiniBuckets", "mini_bucket_order", "mini_buckets"),
        "planar": ("planar_faces",),
        "recognise": (
            "bipartition",
            "chain_order",
            "immoralities",
            "is_binary",
            "is_bipartite",
            "is_chain",
            "is_dag_representable",
            "is_directed_tree",
            "is_forest",
            "is_pairwise",
            "is_polytree",
            "is_tree",
            "is_undirected_representable",
        ),
        "region_builders": (
            "bethe_regions",
            "cluster_variation",
            "junction_regions",
            "loop_edge_node",
            "region_graph",
        ),
        "regions": ("Region", "RegionGraph"),
        "separation": (
            "FactorSplit",
            "d_connected",
            "d_separated",
            "is_markov_blanket",
            "markov_blanket",
            "reachable",
            "separated",
            "split_factors",
        ),
        "spanning_trees": (
            "Forests",
            "appearance",
            "covering_forests",
            "edge_appearance",
            "given_forests",
            "random_forests",
            "spanning_forest",
            "uniform_appearance",
            "uniform_forest",
        ),
        "tree_conversions": (
            "DirectedTables",
            "directed_tree_to_undirected",
            "polytree_to_factor_graph",
            "tree_from_marginals",
            "undirected_tree_to_directed",
        ),
    },
)
