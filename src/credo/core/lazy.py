"""Packages whose public names are imported when they are first used.

A package that imports all its modules makes every user of one of them pay for the others. `furnish` gives a
package the names of its modules without importing these.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

__all__ = ["furnish"]


class _Room(ModuleType):
    """A package that knows in which module each of its names is defined."""

    _homes: dict[str, str]  # name -> module that defines it, relative to the package
    _modules: dict[str, str]  # name -> module that goes by this name
    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name in self._modules:
            value: Any = importlib.import_module(f".{self._modules[name]}", self.__name__)
        elif name in self._homes:
            value = getattr(importlib.import_module(f".{self._homes[name]}", self.__name__), name)
        else:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a module sets it as an attribute of its package; where a name of the package is spelt like
        # the module that defines it, the name is what users mean.
        if isinstance(value, ModuleType) and self._homes.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__all__, *(name for name in super().__dir__() if name.startswith("__"))})


def furnish(package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str] = ()) -> None:
    """Make names available in a package, each imported at its first use.

    Parameters
    ----------
    package
        Dotted name of the package, `__name__` in its `__init__`.
    names
        Module, relative to the package, -> the names it defines.
    modules
        Modules, relative to the package, that are available under the last word of their names.
    """
    room = sys.modules[package]
    room.__dict__["_homes"] = {name: module for module, defined in names.items() for name in defined}
    room.__dict__["_modules"] = {module.rpartition(".")[2]: module for module in modules}
    room.__class__ = _Room
