"""Four functions of scipy.special without the import of all of it, which takes longer than all statistics of a small comparison.

`import scipy.special` also imports its array-API wrappers, with numpy.testing, numpy.f2py and numpy.polynomial: a fifth of a
second. What is used lies in its compiled part, `scipy.special._ufuncs`. The package itself is put off: its own code runs
with the first use of anything else of it, as with `importlib.util.LazyLoader`, which cannot import a submodule first. Where
scipy is laid out in another way, it is imported whole.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_PACKAGE = "scipy.special"
_USED = ("ndtri", "nctdtrinc", "stdtr", "stdtrit")
_lock = threading.RLock()


class _PutOff(ModuleType):
    """A package whose code runs with the first attribute that it lacks; other threads wait for it."""

    def __getattr__(self, name: str) -> Any:
        if not _run(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self, name)


_running: list[ModuleType] = []


def _run(package: ModuleType) -> bool:
    """Whether the code of the package has run, and not only begun."""
    with _lock:
        if package in _running:
            return False
        if isinstance(package, _PutOff):
            assert package.__spec__ is not None and package.__spec__.loader is not None
            _running.append(package)
            try:
                package.__spec__.loader.exec_module(package)
            finally:
                _running.remove(package)
            object.__setattr__(package, "__class__", ModuleType)
        return True


def _compiled() -> ModuleType:
    """The module with the compiled functions; the whole package where it was imported before, or has no such module."""
    if _PACKAGE in sys.modules:
        return sys.modules[_PACKAGE]
    spec = importlib.util.find_spec(_PACKAGE)  # imports scipy, not the package
    assert spec is not None
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _PutOff
    sys.modules[_PACKAGE] = package
    try:
        found = importlib.import_module(f"{_PACKAGE}._ufuncs")
        if all(hasattr(found, name) for name in _USED):
            return found
    except ImportError:
        pass
    _run(package)
    return package


_functions = _compiled()
ndtri: Any = _functions.ndtri
nctdtrinc: Any = _functions.nctdtrinc
stdtr: Any = _functions.stdtr
stdtrit: Any = _functions.stdtrit
