"""Graphs made from graphs: separation, cliques, recognisers, conversions, elimination, junction trees."""

from __future__ import annotations

from .cliques import is_chordal, maximal_cliques, maximum_cardinality_search, perfect_elimination_order
from .conversions import one_factor_per_edge, to_clique_factors, to_pairwise, without_constants
from .directed import DirectedGraph, moralise
from .elimination import EliminationOrder, elimination_order, induced_width
from .graph import UndirectedGraph, connected_components, primal_graph
from .independence import Statement, independencies, independent, is_i_map
from .junction_tree import JunctionTree, junction_tree
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
    "JunctionTree",
    "Statement",
    "UndirectedGraph",
    "bipartition",
    "chain_order",
    "connected_components",
    "d_connected",
    "d_separated",
    "directed_tree_to_undirected",
    "elimination_order",
    "immoralities",
    "independencies",
    "independent",
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
    "is_undirected_representable",
    "junction_tree",
    "markov_blanket",
    "maximal_cliques",
    "maximum_cardinality_search",
    "moralise",
    "one_factor_per_edge",
    "perfect_elimination_order",
    "polytree_to_factor_graph",
    "primal_graph",
    "reachable",
    "separated",
    "split_factors",
    "to_clique_factors",
    "to_pairwise",
    "tree_from_marginals",
    "undirected_tree_to_directed",
    "without_constants",
]
