"""Steps of a capture: which NVTX ranges are step labels, and the host window of each step.

A step's host window is [label start, next label start) on the label's thread. Sources are tried in this
order: `--step-regex`, the labels of known stacks and the family of ranges with the best evidence (labels),
the work that repeats (inference). A label that each process says once is one step: [start, end).
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import msgspec
from msgspec.structs import replace

from tracediff.errors import TracediffError, UsageError
from tracediff.formats.capture import Capture
from tracediff.formats.database import run_sql, sql
from tracediff.model import Note, Repeats
from tracediff.trace.inference import BEGINS, INFERRED, Inference, Level, infer_steps
from tracediff.trace.labels import (
    PRESETS,
    RE2,
    SOURCES,
    USERS,
    Family,
    Mark,
    StepLabels,
    families,
    from_regex,
)

_MOST = 0.5  # ops launched inside a known label that occurs once, for it to be the step of the capture
_SHOWN = 3  # families and levels that a refusal names
_TABLES = ("step", "step_text")


class StepRule(msgspec.Struct, frozen=True):
    """How the steps of a capture were found."""

    source: str  # as `step_source` of a result
    rule: str  # equal where captures are cut alike
    regex: str = ""  # of the labels, for --step-regex
    inferred: bool = False


WHOLE_CAPTURE = StepRule("whole-capture", "whole-capture")


def find_steps(capture: Capture, step_regex: str | None = None, *, infer: Repeats | None = None) -> StepRule:
    """Fill the tables `step` and `step_text` of the capture; say how the steps were found. `infer`: from what repeats, whatever labels there are.

    A process with GPU work that the labels leave without steps has those of its own ranges, where these have evidence enough.

    Adds a warning to the capture: steps-by-evidence, steps-inferred, one-step-per-run.
    Raises `TracediffError`: bad-step-regex, no-steps, one-step.
    """
    if step_regex is not None:
        return _by_regex(capture, from_regex(step_regex))
    if infer:
        inference = infer_steps(capture, infer)
        if inference.source is None:
            raise _nothing(capture, [], inference)
        return _inferred(inference)
    once: StepLabels | None = None
    for source in (*SOURCES, *PRESETS):
        rule, alone = _by_label(capture, source)
        if rule is not None:
            return _with_others(capture, rule)
        once = once or (source if alone else None)
    looked_at = families(capture)
    if (family := next((one for one in looked_at if one.taken), None)) is not None:
        return _with_others(capture, _by_evidence(capture, family))
    only = None
    if once is not None:
        _label(capture, once)
        only = capture.db.execute("SELECT pid, start_ns, label_end_ns FROM step").fetchall()
        if (work := _work(capture)).inside >= _MOST * work.ops:
            return _one_step(capture, once, work)
    inference = infer_steps(capture)
    if inference.source is not None and not (only and _parts(capture, only)):
        return _inferred(inference)
    if once is not None:
        capture.warnings[:] = [note for note in capture.warnings if note.slug != "steps-inferred"]
        _label(capture, once)
        return _one_step(capture, once, _work(capture))
    raise _nothing(capture, looked_at, inference)


def _by_label(capture: Capture, source: StepLabels) -> tuple[StepRule | None, bool]:
    """The rule of labels of known stacks where they cut the capture; whether one is there that occurs once, around less than is sure."""
    known, steps = source in SOURCES, _label(capture, source)
    if not steps or (known and steps > 1):
        return (_labelled(capture, source) if steps else None), False
    work = _work(capture)
    if steps > 1:
        return (_labelled(capture, source) if work.steps > 1 or not work.ops else None), False
    if known and not work.inside:
        raise _too_few(capture)
    most, of_stack = work.inside >= _MOST * max(work.ops, 1), source.name != USERS
    if most and of_stack:
        return _one_step(capture, source, work), False
    return None, bool(work.inside) and (most or of_stack)  # users may call a warm-up a step


def _inferred(inference: Inference) -> StepRule:
    assert inference.source is not None
    return StepRule(inference.source, f"{INFERRED}: {BEGINS[inference.event]}", inferred=True)


def _parts(capture: Capture, only: Sequence[tuple[int, int, int]]) -> bool:
    """Whether inferred steps are parts of one: two begin inside the only label of a process (pid, start, end)."""
    begins = "SELECT count(*) FROM step WHERE pid = ? AND start_ns BETWEEN ? AND ?"
    found = [capture.db.execute(begins, list(one)).fetchone() for one in only]
    return any(row is not None and row[0] > 1 for row in found)


def _by_regex(capture: Capture, source: StepLabels) -> StepRule:
    steps = _label(capture, source)
    if not capture.count("step"):
        raise TracediffError(
            "no-steps",
            f"{capture.name}: no {capture.recording.range} matches --step-regex {source.pattern!r}",
            fix=_seen(capture),
        )
    if steps > 1:
        return StepRule(source.name, source.name, source.pattern)
    work = _work(capture)
    if not work.inside:
        raise _too_few(capture)
    return _one_step(capture, source, work)


def _labelled(capture: Capture, source: StepLabels) -> StepRule:
    """A server in front of the engine may carry labels too; it has no GPU work to cut into steps."""
    if capture.count("op_row"):
        capture.db.execute("DELETE FROM step WHERE pid NOT IN (SELECT pid FROM op_descriptor)")
    return StepRule(source.name, source.name, source.pattern)


def _one_step(capture: Capture, source: StepLabels, work: _Work) -> StepRule:
    """Close the only step of each process where its label ends."""
    rule = _labelled(capture, source)
    capture.db.execute("UPDATE step SET next_ns = label_end_ns")
    rest = ""
    if work.inside < _MOST * work.ops:
        rest = f". It holds {work.inside / work.ops:.0%} of the GPU work of the capture; the rest is not measured"
    capture.warnings.append(
        Note(
            "one-step-per-run",
            "one step per run: the step label occurs once. The step lasts from its first GPU work to the end of its last"
            f"{rest}. How much steps of one run differ is not known",
        )
    )
    return replace(rule, rule=f"{source.name}, one step per run")


def _by_evidence(capture: Capture, family: Family) -> StepRule:
    name = f"range {family.text!a}"
    source = StepLabels(name, family.pattern, number=int(family.numbered))
    _label(capture, source)
    capture.warnings.append(
        Note(
            "steps-by-evidence",
            f"steps were found by evidence: {name}; where steps begin elsewhere, name their range with --step-regex (this choice is"
            f" --step-regex '{family.pattern}'). Evidence: {'; '.join(_REASONS[one.code] for one in family.marks)}",
        )
    )
    return _labelled(capture, source)


def _with_others(capture: Capture, rule: StepRule) -> StepRule:
    """The rule; where it finds steps, processes with GPU work but no label have those of their own ranges: prefill beside decoding."""
    missing = [] if rule.rule != rule.source else capture.db.execute(sql("trace/step_missing")).fetchall()
    for (pid,) in missing:
        family = next((one for one in families(capture, pid) if one.taken), None)
        if family is not None:
            for name in _TABLES:
                capture.db.execute(f"ALTER TABLE {name} RENAME TO {name}_before")
            _by_evidence(capture, family)
            capture.db.execute("DELETE FROM step WHERE pid <> ?", [pid])
            for name in _TABLES:
                capture.db.execute(f"INSERT INTO {name} FROM {name}_before; DROP TABLE {name}_before")
    return rule


def _label(capture: Capture, source: StepLabels) -> int:
    """Fill the tables from one source of labels; how many steps the process has that has most.

    Where there is GPU work, a process without any does not count.
    """
    try:
        run_sql(
            capture.db, "trace/step",
            pattern=source.pattern, number=source.number,
            ctx=source.ctx, tokens=source.tokens, gen=source.gen,
        )  # fmt: skip
    except duckdb.InvalidInputException as error:
        # RE2 has no look-around and no back-references; only a user's own pattern can hold them
        raise UsageError("bad-step-regex", f"--step-regex {source.pattern!r}: {error}", fix=RE2) from error
    row = capture.db.execute(sql("trace/step_most")).fetchone()
    assert row is not None
    return int(row[0])


class _Work(msgspec.Struct, frozen=True):
    """How steps hold GPU work: of the process that launched most."""

    steps: int  # windows in which something was launched, of the process with most of them
    inside: int  # ops launched inside the labels
    ops: int


def _work(capture: Capture) -> _Work:
    row = capture.db.execute(sql("trace/step_work")).fetchone()
    assert row is not None
    return _Work(*map(int, row))


# What a user reads. Names of a trace are escaped: nothing unprintable is left in them.

_REASONS = {
    "number": "its number rises by 1",
    "word": "its name says what a step is",
    "inside": "60 % of the GPU work or more is launched inside it",
    "mostly-inside": "90 % of the GPU work or more is launched inside it",
    "waits": "the host waits for a result in 90 % of its windows or more",
    "alike": "what its windows launch recurs",
    "part": "its windows alternate as parts of a longer step do",
}
_REFUSALS = {
    "layer": "its name is that of a part of a model",
    "few": "it occurs only {:.0f} times",
    "overlaps": "it overlaps itself in {:.0%} of cases",
    "idle": "only {:.0%} of its windows launch a kernel",
    "late": "only {:.0%} of the GPU work comes after its first start",
    "outside": "only {:.0%} of the GPU work is launched inside it",
}
# why nothing is inferred, by `Inference.refusal`
_WHY = {
    "no-launches": "no launch of GPU work was recorded",
    "launches-missing": "over 2 % of the GPU work has no recorded launch",
    "calls-lost": "most of what repeats may hold CUDA calls that were not recorded",
    "nothing-repeats": "nothing repeats",
    "few": "too few repetitions",
    "one-kernel": "there is one kernel only, and the host waits for no result",
    "layers": "what repeats are ranges that are named like layers",
    "may-be-layers": "the host synchronises but waits for no result: what repeats may be layers",
    "parts": "the host waits for results several times per step, and nothing larger repeats",
    "unsure": "what repeats is too unlike, or may be a part of a step",
}


def _reason(mark: Mark) -> str:
    return f"{_REASONS[mark.code]} ({mark.points:+d})"


def _too_few(capture: Capture) -> TracediffError:
    return TracediffError(
        "one-step",
        f"{capture.name}: only one step label, and no GPU work was launched inside it",
        fix=f"{capture.recording.more}; or --step-regex names another range",
    )


def _nothing(capture: Capture, looked_at: Sequence[Family], inference: Inference) -> TracediffError:
    """The refusal: what was looked at, and the options that take it."""
    parts = []
    if looked_at:
        parts.append("ranges: " + "; ".join(map(_family, looked_at[:_SHOWN])))
    if inference.levels:
        parts.append("work that repeats: " + "; ".join(map(_level, inference.levels[:_SHOWN])))
    parts.append(r"--step-regex names the range of a step (for example 'step (\d+)')")
    if not looked_at:
        parts[-1] = (
            capture.recording.labels
            + r"; --step-regex names a range of another name (for example 'step (\d+)')"
        )
    why = f" ({_WHY.get(inference.refusal, inference.refusal)})" if inference.refusal else ""
    return TracediffError(
        "no-steps",
        f"{capture.name}: no steps found: no known step label, no range with evidence enough, no work that repeats clearly{why}",
        fix=". ".join(parts),
    )


def _family(family: Family) -> str:
    reasons = [_reason(mark) for mark in family.marks]
    if family.refused is not None:
        reasons.append(f"refused: {_REFUSALS[family.refused.code].format(family.refused.value)}")
    return (
        f"{family.text[:60]!a} score {family.score} ({', '.join(reasons) or 'nothing speaks for it'}):"
        f" --step-regex '{family.pattern}'"
    )


def _level(level: Level) -> str:
    what = BEGINS[level.event]
    of = f" ({level.producer[:60]!a})" if level.producer else ""
    size = f", {level.launches} launches each" if level.launches else ""
    return f"{level.segments} times {what}{of}{size} (confidence {level.confidence:.2f})"


def _seen(capture: Capture) -> str:
    """What the ranges of the capture are called."""
    names = [ascii(name) for (name,) in capture.db.execute(sql("trace/range_names")).fetchall()]
    if not names:
        return f"the capture has no {capture.recording.range}: {capture.recording.ranges}"
    return f"match a part of a range's name; among them, N for a number: {', '.join(names)}"
