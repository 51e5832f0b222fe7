"""The result of a comparison: one object (`Result`), from which every report and the JSON file are made.

All times are ns per step (floats, because they are means over steps) unless a field says otherwise; `delta_ns` is candidate -
baseline, so positive is slower. The package imports nothing of the project. What is no part of a comparison of steps has
a module of its own, which is imported by its name: `show` (one capture), `contents` (what a file holds).
"""

from tracediff.model.causes import CATEGORIES, Cause
from tracediff.model.common import *  # noqa: F403
from tracediff.model.host import *  # noqa: F403
from tracediff.model.kernels import *  # noqa: F403
from tracediff.model.pictures import *  # noqa: F403
from tracediff.model.result import *  # noqa: F403
from tracediff.model.structure import *  # noqa: F403

__all__ = ["CATEGORIES", "Cause"]
