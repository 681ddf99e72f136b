"""Message passing."""

from . import alpha_bp as alpha_bp
from . import bp as bp
from . import ep as ep
from . import fractional_bp as fractional_bp
from . import gaussian_bp as gaussian_bp
from . import gbp as gbp
from . import grid_bp as grid_bp
from . import trp as trp
from . import trw as trw
