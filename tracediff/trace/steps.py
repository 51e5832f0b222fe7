"""Steps of a capture: which NVTX ranges are step labels, and the host window of each step.

A step's host window is [label start, next label start) on the label's thread. Sources are tried in this
order: `--step-regex`, TensorRT-LLM's labels (three generations), ProfilerStep#N, the range names of other
stacks (labels), the sequence of launches that repeats (inference).
"""

from __future__ import annotations

import duckdb

from tracediff.errors import TracediffError
from tracediff.formats.capture import Capture
from tracediff.formats.database import run_sql, sql
from tracediff.trace.inference import infer_steps
from tracediff.trace.labels import PRESETS, RE2, SOURCES, StepLabels, from_regex


def find_steps(capture: Capture, step_regex: str | None = None) -> str:
    """Fill the tables `step` and `step_text` of the capture; return the name of the source that matched.

    Adds the warning steps-inferred to the capture where there are no labels.
    Raises `TracediffError`: bad-step-regex, no-steps, one-step.
    """
    for source in SOURCES if step_regex is None else (from_regex(step_regex),):
        steps = _label(capture, source)
        if steps == 1:
            raise TracediffError(
                "one-step",
                f"{capture.name}: only one step label; a whole step needs the start of the next one",
                fix="capture more iterations, for example TLLM_PROFILE_START_STOP=100-150",
            )
        if steps:
            return source.name
    if step_regex is not None:
        raise TracediffError(
            "no-steps",
            f"{capture.name}: no NVTX range matches --step-regex {step_regex!r}",
            fix=_seen(capture),
        )
    for source in PRESETS:
        if _label(capture, source) < 2:
            continue
        if not capture.count("op_row"):  # the host alone is looked at: no label has GPU work
            return source.name
        if _with_work(capture) > 1:
            # a server in front of the engine may carry labels too; it has no GPU work to cut into steps
            capture.db.execute("DELETE FROM step WHERE pid NOT IN (SELECT pid FROM op_sort)")
            return source.name
    inferred = infer_steps(capture)
    if inferred.source is not None:
        return inferred.source
    raise TracediffError(
        "no-steps",
        f"{capture.name}: no step labels among its NVTX ranges (table NVTX_EVENTS)",
        fix="capture with -t nvtx and labelled steps (TensorRT-LLM labels them by itself), name them with"
        r" --step-regex (for example 'step (\d+)'), or give --whole-capture to count each capture as one step"
        + (f"; its ranges, N for a number: {', '.join(names)}" if (names := _range_names(capture)) else ""),
    )


def _seen(capture: Capture) -> str:
    """What the ranges of the capture are called: names of a trace, so nothing unprintable is left in them."""
    names = _range_names(capture)
    if not names:
        return "the capture has no NVTX ranges: record it with -t nvtx"
    return f"match a part of a range's name; among them, N for a number: {', '.join(names)}"


def _range_names(capture: Capture) -> list[str]:
    return [ascii(name) for (name,) in capture.db.execute(sql("trace/range_names")).fetchall()]


def _label(capture: Capture, source: StepLabels) -> int:
    """Fill the tables from one source of labels; how many steps there are."""
    try:
        run_sql(
            capture.db, "trace/step",
            pattern=source.pattern, number=source.number,
            ctx=source.ctx, tokens=source.tokens, gen=source.gen,
        )  # fmt: skip
    except duckdb.InvalidInputException as error:
        # RE2 has no look-around and no back-references; only a user's own pattern can hold them
        raise TracediffError(
            "bad-step-regex", f"--step-regex {source.pattern!r}: {error}", fix=RE2
        ) from error
    return capture.count("step")


def _with_work(capture: Capture) -> int:
    """Steps in which something was launched, of the process that has most of them."""
    row = capture.db.execute(sql("trace/step_work")).fetchone()
    return int(row[0]) if row else 0
