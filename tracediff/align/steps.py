"""Steps of a capture: which NVTX ranges are step labels, and the host window of each step.

A step's host window is [label start, next label start) on the label's thread. Sources are tried in this
order: `--step-regex`, TensorRT-LLM's labels (three generations), ProfilerStep#N, range names of other stacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracediff.errors import TracediffError
from tracediff.load.capture import Capture
from tracediff.load.database import run_sql


@dataclass(frozen=True)
class StepLabels:
    """A way to recognise step labels: an RE2 pattern and which of its groups hold what (0: no such group)."""

    name: str
    pattern: str
    number: int = 0
    ctx: int = 0
    tokens: int = 0
    gen: int = 0


# facts: tensorrt_llm/_torch/pyexecutor/py_executor.py writes the label; older versions have no step number or
# no token count.
TENSORRT_LLM = StepLabels(
    "tensorrt-llm",
    r"_forward_step(?:\s+(\d+))?:\s+(\d+) ctx reqs,(?:\s+(\d+) ctx tokens,)?\s+(\d+) gen reqs",
    number=1, ctx=2, tokens=3, gen=4,
)  # fmt: skip
PROFILER_STEP = StepLabels("profiler-step", r"^ProfilerStep#(\d+)$", number=1)

SOURCES: tuple[StepLabels, ...] = (TENSORRT_LLM, PROFILER_STEP)


def find_steps(capture: Capture, step_regex: str | None = None) -> str:
    """Fill the tables `step` and `step_text` of the capture; return the name of the source that matched.

    Raises `TracediffError`: bad-step-regex, no-steps, one-step.
    """
    sources = (_from_regex(step_regex),) if step_regex is not None else SOURCES
    for source in sources:
        run_sql(
            capture.db, "align/step",
            pattern=source.pattern, number=source.number, ctx=source.ctx, tokens=source.tokens, gen=source.gen,
        )  # fmt: skip
        steps = capture.count("step")
        if steps == 1:
            raise TracediffError(
                "one-step",
                f"{capture.name}: only one step label; a whole step needs the start of the next one",
                fix="capture more iterations, for example TLLM_PROFILE_START_STOP=100-150",
            )
        if steps:
            return source.name
    if step_regex is not None:
        raise TracediffError("no-steps", f"{capture.name}: no NVTX range matches --step-regex {step_regex!r}")
    raise TracediffError(
        "no-steps",
        f"{capture.name}: no step labels among its NVTX ranges (table NVTX_EVENTS)",
        fix="capture with -t nvtx and labelled steps (TensorRT-LLM labels them by itself), name them with"
        " --step-regex, or give --whole-capture to count each capture as one step",
    )


def _from_regex(text: str) -> StepLabels:
    """`--step-regex`: groups named number, ctx, tokens, gen say what they hold; a lone unnamed group is the number."""
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise TracediffError("bad-step-regex", f"--step-regex {text!r}: {error}") from error
    named = compiled.groupindex
    number = named.get("number", 1 if compiled.groups == 1 and not named else 0)
    return StepLabels(
        f"step-regex:{text}", text, number, named.get("ctx", 0), named.get("tokens", 0), named.get("gen", 0)
    )
