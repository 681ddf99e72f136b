"""Inference by minimising a free energy with gradients; JAX is loaded when one of these runs."""

from .direct import BetheDirect, RegionDirect
from .renn import RENN, InferenceNet

__all__ = ["RENN", "BetheDirect", "InferenceNet", "RegionDirect"]
