"""Message passing."""

from . import bp as bp
from . import alpha_bp as alpha_bp
from . import fractional_bp as fractional_bp
from . import trp as trp
