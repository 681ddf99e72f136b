"""Pictures of models, beliefs, runs and comparisons.

Every function returns a Matplotlib `Figure` made without pyplot: nothing is shown, no global
state changes, and `figure.savefig("picture.png")` works without a display. Matplotlib and
NetworkX come with `pip install credo[plot]` and are imported at the first picture.
"""

from .beliefs import plot_beliefs, plot_grid
from .comparison import plot_comparison
from .densities import plot_densities
from .graph import plot_model
from .normal_form import plot_normal_form, plot_trajectories
from .regions import plot_regions
from .trace import plot_trace

__all__ = [
    "plot_beliefs",
    "plot_comparison",
    "plot_densities",
    "plot_grid",
    "plot_model",
    "plot_normal_form",
    "plot_regions",
    "plot_trace",
    "plot_trajectories",
]
