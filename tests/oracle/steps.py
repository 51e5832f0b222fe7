"""Find the steps of a process and say to which step each op belongs."""

import re
from collections import Counter
from dataclasses import dataclass

from tests.oracle.capture import FOREVER, Capture, Op, process_of

LABEL = re.compile(r"_forward_step(?:\s+(\d+))?:\s+(\d+) ctx reqs,(?:\s+(\d+) ctx tokens,)?\s+(\d+) gen reqs")
PROFILER_STEP = re.compile(r"^ProfilerStep#(\d+)()()()$")  # the same four groups; three are never filled


@dataclass(frozen=True)
class Step:
    """One step of one process; its host window is [start, end) on the thread that carries the labels."""

    number: int
    ctx_reqs: int | None
    ctx_tokens: int | None
    gen_reqs: int | None
    start: int
    end: int

    @property
    def phase(self) -> str:
        """context, generation or mixed; `step` when the label says nothing of requests."""
        if self.ctx_reqs is None:
            return "step"
        if self.ctx_reqs == 0:
            return "generation"
        return "context" if self.gen_reqs == 0 else "mixed"


WHOLE_CAPTURE = Step(0, None, None, None, -FOREVER, FOREVER)


def find_steps(capture: Capture, rank: int) -> list[Step]:
    """Find the process's steps in order of time; without labels the whole capture is one step."""
    for pattern in (LABEL, PROFILER_STEP):
        ranges = [item for item in capture.ranges if process_of(item.thread) == rank]
        labels = [item for item in ranges if pattern.search(item.text)]
        if not labels:
            continue
        # Only one thread's labels are steps: the one with the most labels (of those, the lowest id).
        count = Counter(label.thread for label in labels)
        carrier = min(count, key=lambda thread: (-count[thread], thread))
        labels = [label for label in labels if label.thread == carrier]
        labels.sort(key=lambda label: (label.start, -label.end, label.row))
        # A label that begins inside another is a part of that step.
        labels = [
            label for at, label in enumerate(labels) if all(one.end <= label.start for one in labels[:at])
        ]
        ends = [label.start for label in labels[1:]] + [FOREVER]
        steps: list[Step] = []
        for label, end in zip(labels, ends, strict=True):
            groups = pattern.search(label.text).groups()  # type: ignore[union-attr]
            number, ctx_reqs, ctx_tokens, gen_reqs = (int(text) if text else None for text in groups)
            number = len(steps) if number is None else number
            steps.append(Step(number, ctx_reqs, ctx_tokens, gen_reqs, label.start, end))
        return steps
    return [WHOLE_CAPTURE]


def step_of_ops(capture: Capture, ops: list[Op], steps: list[Step]) -> list[Step | None]:
    """Say which step launched each op of a device; the ops are in order of start.

    An op without a launch row takes the step of the last op before it on its stream that has one; where
    none before it does, it was launched before the capture began and belongs to no step.
    """
    calls = [capture.launching_call.get(op.launch) for op in ops]
    found: list[Step | None] = []
    for index, call in enumerate(calls):
        if call is None:
            before = reversed(range(index))
            same_stream = [calls[other] for other in before if ops[other].stream == ops[index].stream]
            call = next((other for other in same_stream if other is not None), None)
        if steps == [WHOLE_CAPTURE]:
            found.append(WHOLE_CAPTURE)
        elif call is None:
            found.append(None)
        else:
            found.append(next((step for step in steps if step.start <= call.start < step.end), None))
    return found
