"""What a step would take if something were different: the object of `tracediff what-if`.

Times are ns per step, means over the steps that were replayed. `deciding` is what decided how long a step took: the time on the
longest chain of events that wait for one another, by category of the accounting; it sums to the step.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tracediff.model.common import Coverage, Note, Tool
from tracediff.model.result import SideInput

WHAT_IF_VERSION = 1
WhatIfKind = Literal["without", "scale", "fuse", "graph", "async"]


class WhatIfEdit(msgspec.Struct, frozen=True):
    """A change that was applied. found: events per step that it is about; kind, text: as it was given."""

    kind: WhatIfKind
    text: str
    found: float


class WhatIfPhase(msgspec.Struct, frozen=True):
    """Steps of one phase before and after. The range holds the step time of a program that was really changed in 8 of 10 cases.

    removed_ns: time that the edits took from threads and GPUs; what of it the step did not gain was hidden.
    """

    phase: str
    steps: int
    before_ns: float
    after_ns: float
    low_ns: float
    high_ns: float
    removed_ns: float
    deciding_before: dict[str, float]
    deciding_after: dict[str, float]


class WhatIf(msgspec.Struct, kw_only=True):
    """The object."""

    format_version: int = WHAT_IF_VERSION
    kind: Literal["what-if"] = "what-if"
    tool: Tool
    input: SideInput
    options: dict[str, Any]
    edits: list[WhatIfEdit]
    steps: int  # that were replayed
    all_steps: int
    phases: list[WhatIfPhase]
    coverage: Coverage
    warnings: list[Note] = []
