"""Bounds that hold whenever a run is stopped."""

from . import dual_decomposition as dual_decomposition
from . import gdd as gdd
from . import lp as lp
from . import mini_bucket as mini_bucket
from . import reordering as reordering
from . import trw_primal as trw_primal
from . import wmb as wmb
