"""Discovery of extension folders: one new file in the folder is one new member, no list to edit."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def members(package: str) -> dict[str, ModuleType]:
    """Public modules of ``package`` by name, in alphabetical order; names starting with ``_`` are not members."""
    root = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(root.__path__) if not info.name.startswith("_"))
    return {name: importlib.import_module(f"{package}.{name}") for name in names}
