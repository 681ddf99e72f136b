"""Search for the best states."""

from . import alpha_expansion as alpha_expansion
from . import branch_and_bound as branch_and_bound
from . import decimation as decimation
from . import graph_cut as graph_cut
from . import local_search as local_search
from . import soft_consistency as soft_consistency
