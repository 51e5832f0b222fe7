"""Can these captures be compared at all? Each check shows both values; a fail stops the verdict unless forced."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence

from tracediff.accounting.reduction import Reduction
from tracediff.comparison.classes import Strata
from tracediff.comparison.tables import KINDS as SYSTEM
from tracediff.execution.sides import Side
from tracediff.kernels.names import short
from tracediff.model import Check, Comparability, Note, Stratum
from tracediff.trace.labels import PRESETS, SOURCES
from tracediff.trace.workloads import IRREGULAR

Status = str
_ALIKE = (
    3  # ops of inferred steps: beyond this ratio one side's are layers, or requests, and the other's steps
)
_UNLIKE, _UNRELATED = 0.3, 0.05  # of the kernel time has a counterpart: below, the programs may be others
_SHORT = 60  # letters of a pattern that a message repeats


def facts(side: Side) -> list[tuple[str, str]]:
    """What the captures of one side say of the machine, by the names of the checks; `?` where they do not."""
    return [
        ("gpu", _values(side, _gpus)),
        ("gpu_count", _values(side, _gpu_count)),
        ("driver", _values(side, _meta("NvDriverVersion"))),
        ("cuda", _values(side, _meta("CudaDriverVersion"))),
        ("nsys", _values(side, _meta("EXPORT_PRODUCT_VERSION"))),
        ("schema", _values(side, lambda part: part.schema_version or "?")),
        ("clocks", _values(side, _clocks)),
        ("graph_mode", _values(side, lambda part: part.graph_mode)),
    ]


def check(
    sides: tuple[Side, Side],
    strata: Strata,
    unlike_work: tuple[str, float, float] | None = None,
    counterparts: tuple[float, float] | None = None,
) -> Comparability:
    """Run every check. `unlike_work`: a kernel that tells that the captures did not do as much, and its launches on each side.

    `counterparts`: the part of each side's kernel time in kernels that the other side has too; None where a side has no kernels.
    """
    checks = [
        _same(sides, "gpu", _gpus, "fail", "times of different GPU models are not comparable"),
        _same(sides, "gpu_count", _gpu_count, "warn",
              "GPU counts differ"),
        _ranks(sides),
        _same(sides, "driver", _meta("NvDriverVersion"), "warn", "the driver differs: its share of a delta is unknown"),
        _same(sides, "cuda", _meta("CudaDriverVersion"), "warn", "the CUDA version differs"),
        _same(sides, "cpu_cores", _meta("CpuCores"), "warn", "core counts of the hosts differ: host time may differ"),
        _profiler(sides),
        _same(sides, "schema", lambda part: part.schema_version or "?", "ok", ""),
        _same(sides, "clocks", _clocks, "warn", "maximum clocks differ"),
        _graph_mode(sides),
        *(_kind(sides, kind) for kind in ("kernels", "cuda_api", "nvtx", "graphs", "gil", "memcpy", "sync")),
        *(_kind(sides, kind) for kind in SYSTEM if any(side.captured(kind) for side in sides)),
        _gc(sides),
        _step_labels(sides),
        _window(sides),
        _mix(strata.rows),
        _dropped(sides),
    ]  # fmt: skip
    if counterparts is not None and min(counterparts) < _UNLIKE:
        one, other = (f"{100 * part:.0f} % of the kernel time" for part in counterparts)
        unrelated = min(counterparts) < _UNRELATED and not _one_label(sides)
        checks.append(
            Check("programs", "fail" if unrelated else "warn", one, other,
                  "few kernels of one side have a counterpart on the other: these may be different programs, or other"
                  " backends of one")
        )  # fmt: skip
    if unlike_work is not None:
        name, *counts = unlike_work
        one, other = (f"{count:,.0f}" for count in counts)
        checks.append(
            Check("work", "warn", one, other,
                  f"the captures hold different amounts of work: {one} and {other} launches of {short(name)}."
                  " Compare their kernels per launch, not their length")
        )  # fmt: skip
    return Comparability(all(one.status != "fail" for one in checks), checks)


def _one_label(sides: tuple[Side, Side]) -> bool:
    """Whether a label of the program's own cuts all captures: one program, then, even where another data type replaced its kernels.

    A label that a stack gives to all its programs says nothing of that.
    """
    rules = {part.step_rule for side in sides for part in side.parts}
    stacks = {source.name for source in (*SOURCES, *PRESETS)}
    return len(rules) == 1 and all(rule.regex and rule.source not in stacks for rule in rules)


def _values(side: Side, value: Callable[[Reduction], str]) -> str:
    return " | ".join(sorted({value(part) for part in side.parts}))


def _meta(name: str) -> Callable[[Reduction], str]:
    # a machine without a driver says 0: that is no version
    return lambda part: "+".join(one for one in part.meta.get(name, ()) if one != "0") or "?"


def _profiler(sides: tuple[Side, Side]) -> Check:
    """Versions of one profiler may differ; two profilers slow the host down by amounts that are no change of the program."""
    version = _same(
        sides, "nsys", _meta("EXPORT_PRODUCT_VERSION"), "warn", "another profiler may trace at another cost"
    )
    if len({one for side in sides for one in side.by_torch()}) < 2:
        return version
    return Check(
        "nsys", "fail", version.baseline, version.candidate,
        "nsys and torch.profiler each slow the host down by another amount: kernels and copies compare, host time and the"
        " step do not",
    )  # fmt: skip


def _step_labels(sides: tuple[Side, Side]) -> Check:
    """All captures cut by one rule; inferred steps also about as many ops long, or they are different loops."""
    one, other = (_values(side, lambda part: part.step_rule.rule) for side in sides)
    rules = {part.step_rule.rule: part.step_rule for side in sides for part in side.parts}
    if len(rules) > 1:
        regexes = {rule.regex for rule in rules.values()}
        short = min((one for one in regexes if one), key=lambda one: (len(one), one), default="")
        advice = "label the steps of all alike, or name their range with --step-regex"
        if regexes == {short} and short:
            advice = (
                "a step whose label occurs once ends with its label, other steps end at the next label:"
                " capture several steps on both"
            )
        elif bare := [side.label for side in sides if not side.captured("nvtx")]:
            advice = (
                f"record {' and '.join(bare)} with the same labels and nsys -t cuda,nvtx; with the captures at hand"
                " --whole-capture compares them without steps"
            )
        elif 0 < len(short) <= _SHORT:
            advice = f"--step-regex {shlex.quote(short)} cuts all by one range, where all have it"
        return Check(
            "step_labels", "fail", one, other,
            f"the captures are not cut into steps by one rule, so their steps are not the same thing: {advice}",
        )  # fmt: skip
    how = Check("step_labels", "ok", one, other, "")
    ops = [[round(_ops(part)) for part in side.parts if part.step_rule.inferred] for side in sides]
    if not all(ops) or max(map(max, ops)) <= _ALIKE * min(map(min, ops)):
        return how
    values = [" | ".join(f"{count} ops per step" for count in sorted(set(side))) for side in ops]
    return Check(
        "step_labels", "fail", values[0], values[1],
        "steps were inferred, and hardly of the same loop: label them, or name the labels with --step-regex",
    )  # fmt: skip


def _ops(part: Reduction) -> float:
    """Mean number of ops of the steps that are like the repeating one."""
    steps = part.periods.filter(part.periods["phase"] != IRREGULAR)
    count = part.kernels.join(steps, on="period", how="semi")["count"].sum()
    return float(count) / max(len(steps), 1)


def _gpus(part: Reduction) -> str:
    return ", ".join(sorted({name for _, name, _, _ in part.devices})) or "?"


def _gpu_count(part: Reduction) -> str:
    return str(len({(device, name) for device, name, _, _ in part.devices}) or "?")


def _clocks(part: Reduction) -> str:
    clocks = dict.fromkeys(f"{clock / 1e6:.0f} MHz" for _, _, _, clock in part.devices if clock)
    return ", ".join(clocks) or "?"


def _same(
    sides: tuple[Side, Side], name: str, value: Callable[[Reduction], str], status: Status, message: str
) -> Check:
    one, other = _values(sides[0], value), _values(sides[1], value)
    if one == other:
        return Check(name, "ok", one, other, "")
    if "?" in (one, other):
        return Check(name, "ok", one, other, "not recorded on one side")
    return Check(name, status, one, other, message)  # type: ignore[arg-type]


def _ranks(sides: tuple[Side, Side]) -> Check:
    def ranks(side: Side) -> str:
        return " | ".join(str(one) for one in sorted({run.program_ranks for run in side.runs}))

    def measured(side: Side) -> set[int]:
        return {sum(part.measured.ranks for part in run.parts) for run in side.runs}

    one, other = ranks(sides[0]), ranks(sides[1])
    if one != other:
        # the only hint that repeats in a folder of folders were taken for ranks
        hints = [note.message for side in sides for note in side.notes if note.slug == "taken-as-ranks"]
        return Check(
            "ranks", "fail", one, other, ". ".join(["rank counts differ: steps do different work", *hints])
        )
    # what traces of torch.profiler say of themselves: `3 of 8`
    said = [{value for part in side.parts for value in part.meta.get("RANK", ())} for side in sides]
    if all(said) and said[0] != said[1]:
        values = [" | ".join(f"rank {value}" for value in sorted(each)) for each in said]
        sizes = [{value.partition(" of ")[2] for value in each} for each in said]
        message = (
            "rank counts differ: steps do different work"
            if sizes[0] != sizes[1]
            else "other ranks of the program: compare each rank with itself, or all of them"
        )
        return Check("ranks", "fail", values[0], values[1], message)
    if measured(sides[0]) != measured(sides[1]):
        return Check(
            "ranks",
            "warn",
            one,
            other,
            "not the same number of ranks is measured: some are left out of a side only",
        )
    return Check("ranks", "ok", one, other, "")


def _graph_mode(sides: tuple[Side, Side]) -> Check:
    one, other = (_values(side, lambda part: part.graph_mode) for side in sides)
    if one == other or "unknown" in (one, other):
        return Check("graph_mode", "ok", one, other, "")
    return Check(
        "graph_mode", "fail", one, other,
        "CUDA graphs were traced by node on one side and as a whole on the other: capture both with"
        " --cuda-graph-trace=node",
    )  # fmt: skip


def _kind(sides: tuple[Side, Side], kind: str) -> Check:
    one, other = ("captured" if side.captured(kind) else "not captured" for side in sides)
    if one == other:
        return Check(f"trace_{kind}", "ok", one, other, "")
    ranges = "record_function" if all(one for side in sides for one in side.by_torch()) else "nsys -t nvtx"
    if kind == "cuda_api" and not any(side.captured("kernels") for side in sides):
        text = "recording CUDA calls slows the host of one side down (nsys -t cuda)"
        return Check(f"trace_{kind}", "warn", one, other, text)
    status = {"kernels": "fail", "cuda_api": "fail", "graphs": "fail"}.get(kind, "warn")
    message = {
        "kernels": "one side has no GPU kernels: its steps are timed on the host (--host-only compares the host of both)",
        "cuda_api": "without launching calls on one side idle time cannot be attributed there",
        "graphs": "the kernels of CUDA graphs are missing on one side",
        "gil": "waits for the GIL are counted on both sides as what they would be called without a GIL trace"
        " (nsys -t python-gil)",
        "nvtx": f"host work cannot be named by range on one side ({ranges})",
        "os_calls": "recording every OS call slows the host of one side down (nsys -t osrt)",
        "context_switches": "recording context switches slows the host of one side down (nsys --cpuctxsw)",
        "gpu_metrics": "sampling GPU metrics costs one side time (nsys --gpu-metrics-devices=all)",
        "mpi": "recording every MPI call slows the host of one side down (nsys -t mpi)",
        "nccl": "one side holds no NVTX ranges of NCCL: it was not used there, or its ranges were off",
        "gpu_memory": "recording allocations slows those of one side down (nsys --cuda-memory-usage)",
    }.get(kind, "what this kind of trace shows is missing on one side")
    return Check(f"trace_{kind}", status, one, other, message)  # type: ignore[arg-type]


def _gc(sides: tuple[Side, Side]) -> Check:
    one, other = ("seen" if side.captured("gc") else "none seen" for side in sides)
    message = ""
    if one != other:
        message = (
            "no `Python GC` range on one side: either nothing was collected or it was not recorded"
            " (TLLM_PROFILE_RECORD_GC=1), then its time counts as host work there"
        )
    return Check("trace_gc", "ok", one, other, message)


def _window(sides: tuple[Side, Side]) -> Check:
    def steps(side: Side) -> list[int]:
        return [sum(len(part.periods) for part in run.parts) for run in side.runs]

    one, other = steps(sides[0]), steps(sides[1])
    text = [_counts(counts) for counts in (one, other)]
    means = sum(one) / len(one), sum(other) / len(other)
    if max(means) > 1.2 * min(means):
        return Check(
            "capture_window", "warn", text[0], text[1],
            "step counts differ; times are compared per step, never in total",
        )  # fmt: skip
    return Check("capture_window", "ok", text[0], text[1], "")


def _counts(steps: list[int]) -> str:
    """Whole steps of each run; said once where all runs hold as many."""
    each = " a run" if len(steps) > 1 else ""
    return f"{steps[0]}{each}" if len(set(steps)) == 1 else " | ".join(map(str, steps))


# how many steps of a stratum each side has
_COUNTS: tuple[Callable[[Stratum], int], ...] = (
    lambda row: row.baseline_steps,
    lambda row: row.candidate_steps,
)


def _mix(rows: list[Stratum]) -> Check:
    totals = [sum(row.baseline_steps for row in rows), sum(row.candidate_steps for row in rows)]
    distance = sum(abs(row.baseline_steps / totals[0] - row.candidate_steps / totals[1]) for row in rows) / 2
    phases = sorted({row.phase for row in rows})
    shares = [
        ", ".join(
            f"{phase} {100 * sum(count(row) for row in rows if row.phase == phase) / total:.0f} %"
            for phase in phases
        )
        for total, count in zip(totals, _COUNTS, strict=True)
    ]
    if not any(row.compared for row in rows):
        return Check(
            "batch_mix", "fail", shares[0], shares[1], "the sides have no steps of like workload in common"
        )
    if distance > 0.1:
        return Check(
            "batch_mix", "warn", shares[0], shares[1],
            f"the batches differ: only {100 * (1 - distance):.0f} % of the steps have a counterpart on the other side",
        )  # fmt: skip
    return Check("batch_mix", "ok", shares[0], shares[1], "")


def _dropped(sides: tuple[Side, Side]) -> Check:
    slugs = ("graph-kernels-missing", "kernels-without-launch")
    counts = [sum(note.slug in slugs for part in side.parts for note in part.warnings) for side in sides]
    status = "warn" if any(counts) else "ok"
    message = (
        "some GPU work or its launching calls were not recorded: see the warnings" if any(counts) else ""
    )
    return Check("complete", status, _runs(counts[0]), _runs(counts[1]), message)  # type: ignore[arg-type]


def _runs(count: int) -> str:
    return "complete" if not count else f"{count} warning{'s' if count > 1 else ''}"


# Captures that are no repeats.


def repeated_captures(sides: Sequence[Side]) -> list[Note]:
    """Warn where a side counts one capture as several runs: copies scatter like nothing that was measured.

    Copies that are packed, scrubbed or exported again have other bytes: their steps begin and end at the same ns.
    """
    notes = []
    for side in sides:
        copies: list[tuple[str, str]] = []
        seen: dict[object, str] = {}
        for run in side.runs:
            for part in run.parts:
                same = _identities(part)
                first = next((seen[one] for one in same if one in seen), None)
                if first is None:
                    seen.update(dict.fromkeys(same, run.name))
                else:
                    copies.append((first, run.name))
        if copies:
            named = ", ".join(f"{other} of {one}" for one, other in copies[:3])
            more = f" and {len(copies) - 3} more" if len(copies) > 3 else ""
            notes.append(
                Note(
                    "repeated-capture",
                    f"{side.label} holds captures more than once (a copy: {named}{more}): copies"
                    " are no repeats, so noise, interval and p are not to be believed. Leave them out",
                )
            )
    return notes


def captures_of_both(baseline: Side, candidate: Side) -> list[Note]:
    """Warn where one capture stands on both sides: of two programs it says nothing."""
    before, after = (
        [(run.name, part) for run in side.runs for part in run.parts] for side in (baseline, candidate)
    )
    known = {identity: name for name, part in reversed(before) for identity in _identities(part)}
    found = (
        (next((known[one] for one in _identities(part) if one in known), None), name) for name, part in after
    )
    both = [(name, other) for name, other in found if name is not None]
    if not both:
        return []
    named = ", ".join(f"{other} is {name}" if other != name else name for name, other in both[:3])
    more = f" and {len(both) - 3} more" if len(both) > 3 else ""
    return [
        Note(
            "same-capture",
            f"{baseline.label} and {candidate.label} hold the same capture ({named}{more}): with itself it has not changed,"
            " whatever the programs did. Give another file where two were meant",
        )
    ]


def _identities(part: Reduction) -> list[object]:
    """What copies of a capture share: equal bytes, or every step at the same instants of the trace's clock."""
    table = part.periods.select("rank", "device", "start_ns", "end_ns")
    instants = hashlib.sha256(b"".join(table[name].to_numpy().tobytes() for name in table.columns)).digest()
    return [part.fingerprint, *([instants] if len(table) else [])]
