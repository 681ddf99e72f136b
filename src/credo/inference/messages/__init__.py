"""Message passing."""

from . import alpha_bp as alpha_bp
from . import bp as bp
from . import fractional_bp as fractional_bp
from . import gbp as gbp
from . import trp as trp
from . import trw as trw
