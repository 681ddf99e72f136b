"""Gaussian members as estimators write them: means, and covariances in the shape of their kind.

The names of the kinds, and the shapes, are those of scikit-learn and hmmlearn:

    full        (members, d, d)      diag         (members, d)
    tied        (d, d)               spherical    (members,)

Priors of a most probable fit are hmmlearn's: with means_prior m0, means_weight k, covars_prior S and
covars_weight w a mean is (k m0 + sum x) / (k + n) and a covariance

    ( S + scatter + k (m - m0)^2 ) / ( n + v ),      v = max(w - 1, 0) for diag and spherical,
                                                         max(w - d, 0) for full and tied
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.numbers import float_array
from ..families.base import Family
from ..families.blank import members_of
from ..families.gaussian import Gaussian, TiedGaussian
from ..families.gaussian_diagonal import DiagonalGaussian, SphericalGaussian
from ..families.gaussian_wishart import GaussianWishart
from ..families.normal_gamma import NormalGamma

__all__ = ["Covariance", "gaussian_members", "gaussian_prior", "gaussian_shape", "shaped_covariances"]

Covariance = Literal["full", "tied", "diag", "spherical"]
_KINDS = {"full": "gaussian", "tied": "tied", "diag": "diagonal", "spherical": "spherical"}
_CLASSES: dict[str, Any] = {
    "full": Gaussian, "tied": TiedGaussian, "diag": DiagonalGaussian, "spherical": SphericalGaussian,
}  # fmt: skip


def gaussian_shape(covariance: Covariance, members: int, width: int) -> Family:
    """Members of the kind wanted, whatever their parameters."""
    check.one_of("covariance_type", covariance, list(_KINDS))
    return members_of(_KINDS[covariance], members, width)


def gaussian_members(covariance: Covariance, means: Any, covariances: Any) -> Family:
    """Members with these parameters; covariances of every member are taken in the shape of the kind."""
    check.one_of("covariance_type", covariance, list(_KINDS))
    mean = float_array("means_", means)
    found: Family = _CLASSES[covariance](mean, shaped_covariances(covariance, covariances, *mean.shape))
    return found


def shaped_covariances(covariance: Covariance, covariances: Any, members: int, width: int) -> np.ndarray:
    """Covariances in the shape of their kind, from that shape or from one matrix per member."""
    given = float_array("covariances_", covariances)
    own = {
        "full": (members, width, width), "tied": (width, width), "diag": (members, width),
        "spherical": (members,),
    }[covariance]  # fmt: skip
    if given.shape == own:
        return given
    if given.shape != (members, width, width):
        raise OptionError(
            f"covariances_: expected shape {own} for {covariance}, or {(members, width, width)}, got "
            f"{given.shape}"
        )
    diagonal = np.einsum("kii->ki", given)
    return {"tied": given[0], "diag": diagonal, "spherical": diagonal[:, 0]}[covariance]


def gaussian_prior(
    covariance: Covariance,
    members: int,
    width: int,
    *,
    means_prior: Any,
    means_weight: Any,
    covars_prior: Any,
    covars_weight: Any,
) -> Any:
    """The conjugate prior with the mode of the module; None where every part says nothing."""
    scatter, strength = _numbers("covars_prior", covars_prior), _numbers("means_weight", means_weight)
    weight = _numbers("covars_weight", covars_weight)
    free = 1 if covariance in ("diag", "spherical") else width
    if not scatter.any() and not strength.any() and (weight <= free).all():
        return None
    own = len(strength.shape) or len(weight.shape) or len(scatter.shape) in (1, 3)
    count = 1 if covariance == "tied" or not own else members
    centre = _broadcast("means_prior", _columns(means_prior, members, width), (members, width))
    if covariance == "tied" and strength.any() and np.ptp(centre, axis=0).any():
        raise OptionError("means_prior: expected one mean for all members of a tied covariance, got several")
    strength = _broadcast("means_weight", _columns(strength, members, width), (members, width))[:count]
    centre = centre[:count]
    weight = np.maximum(_broadcast("covars_weight", weight, (members,))[:count], free)
    if covariance in ("diag", "spherical"):
        rate = _broadcast("covars_prior", _columns(scatter, members, width), (members, width))[:count]
        if not (rate > 0).all():
            raise OptionError(
                f"covars_prior: expected positive numbers beside other priors, got {rate.min():g}"
            )
        return NormalGamma(centre, strength, np.repeat(weight[:, None], width, axis=1) / 2, rate / 2)
    if np.ptp(strength, axis=1).any():
        raise OptionError("means_weight: expected one number per member for full and tied covariances")
    matrix = scatter * np.eye(width) if not scatter.ndim else scatter
    matrix = _broadcast("covars_prior", matrix, (members, width, width))[:count]
    if covariance == "tied":  # whose means count in its weight as far as they have a prior
        weight = weight + 1 - (members if strength.any() else 0)
        if (weight <= width - 1).any():
            raise OptionError(
                f"covars_weight: expected more than {width + members - 2} for a tied covariance whose "
                f"{members} means have a prior, got {float(covars_weight):g}"
            )
    return GaussianWishart(centre, strength[:, 0], weight, matrix)


def _numbers(name: str, value: Any) -> np.ndarray:
    return float_array(name, value, error=OptionError)


def _columns(value: Any, members: int, width: int) -> np.ndarray:
    """One number per member as one per member and column."""
    found = _numbers("means_prior", value)
    return found[:, None] if found.shape == (members,) and members != width else found


def _broadcast(name: str, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise OptionError(f"{name}: expected a number, or shape {shape}, got shape {value.shape}") from None
