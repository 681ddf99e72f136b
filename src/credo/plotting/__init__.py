"""Pictures of models, beliefs, runs and comparisons.

Every function returns a Matplotlib `Figure` made without pyplot: no global state changes,
`figure.savefig("picture.png")` works without a display, and a notebook shows the figure that
is the value of a cell. With `ax=` the picture is drawn into axes of yours and their figure is
returned (end such a line with `;` in a notebook whose pyplot shows that figure anyway).
Matplotlib comes with `pip install credo[plot]` and is imported at the first picture.
"""

from .beliefs import plot_beliefs, plot_grid
from .comparison import plot_comparison
from .densities import plot_densities
from .graph import plot_model
from .images import plot_curves, plot_images
from .normal_form import plot_normal_form
from .plane import plot_plane
from .regions import plot_regions
from .trace import plot_trace
from .trajectories import plot_trajectories

__all__ = [
    "plot_beliefs",
    "plot_comparison",
    "plot_curves",
    "plot_densities",
    "plot_grid",
    "plot_images",
    "plot_model",
    "plot_normal_form",
    "plot_plane",
    "plot_regions",
    "plot_trace",
    "plot_trajectories",
]
