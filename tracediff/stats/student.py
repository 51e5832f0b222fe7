"""Student's t as scipy computes it: stdtr, stdtrit and nctdtrinc, without the rest of scipy.special.

Importing that package takes a third of a second, most of it for reading the docstrings of functions that nobody here calls.
The functions themselves are in one compiled module of it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_NAMES = ("stdtr", "stdtrit", "nctdtrinc")


def _compiled() -> Any:
    """The module that holds the functions; where scipy is built otherwise, the whole package."""
    if "scipy.special" not in sys.modules:
        import scipy

        package = ModuleType("scipy.special")
        package.__path__ = [str(Path(folder) / "special") for folder in scipy.__path__]
        sys.modules["scipy.special"] = package
        try:
            found = importlib.import_module("scipy.special._ufuncs")
            if all(hasattr(found, name) for name in _NAMES):
                return found
        except (ImportError, AttributeError):
            pass
        finally:  # whoever imports the package later gets all of it
            del sys.modules["scipy.special"]
    return importlib.import_module("scipy.special")


_found = _compiled()
stdtr = _found.stdtr  # of degrees of freedom and t: the probability of a smaller one
stdtrit = _found.stdtrit  # its inverse
nctdtrinc = _found.nctdtrinc  # the non-centrality of a t distribution
