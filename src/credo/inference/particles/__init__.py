"""Message passing between real variables with particles and mixtures."""

from . import ep_particle_bp as ep_particle_bp
from . import kernel_bp as kernel_bp
from . import nonparametric_bp as nonparametric_bp
from . import particle_bp as particle_bp
