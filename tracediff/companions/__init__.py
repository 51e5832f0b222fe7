"""companions: inputs that stand beside traces. Each reads, compares and renders its own.

Importing this package lets the core recognise their files; readers are imported where a file may be theirs.
"""

from contextlib import suppress
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.recognise import Kind, counted, head_of, recognise, register, saved_result

_CHECKED = 64 << 20  # bytes of a file of trtexec that is read whole to say what is in it


def _ncu_facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.ncu.read import read

    profile = read(path)
    names = {launch.name for launch in profile.launches}
    noun = "launch" if len(profile.launches) == 1 else "launches"
    facts = [f"{len(profile.launches)} {noun} of {counted(len(names), 'kernel')}"]
    return facts + ([f"on {profile.device}"] if profile.device else []), ""


def _is_trtexec(path: Path, head: bytes) -> bool:
    from tracediff.companions.trtexec.read import recognise

    return bool(head) and recognise(head) is not None


def _trtexec_facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.trtexec.read import read, recognise

    if path.stat().st_size <= _CHECKED:
        read(str(path))
    return [f"file: {recognise(head_of(path))}"], ""


def _is_benchmark(path: Path, head: bytes) -> bool:
    from tracediff.companions.bench.read import read

    if not head or b"\0" in head:
        return False
    try:
        read(path)
    except TracediffError:
        return False
    return True


def _benchmark_facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.bench.read import read

    report = read(path)
    figures, iterations = counted(len(report.metrics), "figure"), len(report.iterations)
    each = f", {counted(iterations, 'iteration')}" if iterations else ""
    return [f"format: {report.kind}", figures + each], ""


def _are_latencies(path: Path, head: bytes) -> bool:
    from tracediff.companions.latencies.read import recognise

    return recognise(path) is not None


def _latencies_facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.latencies.read import read

    options = {"latencies-unit": ":UNIT", "latencies-column": ":COLUMN"}
    try:
        found = read(path)
    except TracediffError as error:
        if error.slug not in options:
            raise
        return [error.message], options[error.slug]
    count = "1 latency" if len(found.ns) == 1 else f"{len(found.ns)} latencies"
    return [f"format: {found.format}", count], ""


_TWO = "tracediff compare BASELINE CANDIDATE"
_WITH = "tracediff compare A B --with baseline=PATH --with candidate=PATH"
# ncu-csv before what would take any table; latencies last: many files hold numbers
register((
    # without facts: read by NVIDIA's own module, where that is installed
    Kind("ncu-report", "a report of Nsight Compute", _TWO, lambda path, head: head.startswith(b"NVR\0"), beside="ncu"),
    saved_result("ncu", "compare"),
    Kind("ncu-csv", "what ncu --csv printed", _TWO,
         lambda path, head: b"==PROF==" in head or (b'"ID"' in head and b'"Kernel Name"' in head), facts=_ncu_facts, beside="ncu"),
    saved_result("trtexec", "compare"),
    Kind("trtexec", "what trtexec printed or exported", _TWO, _is_trtexec, facts=_trtexec_facts,
         refusal="trtexec-as-side", instead=f"two of them: {_TWO}; beside traces: {_WITH}", beside="trtexec"),
    Kind("benchmark", "a benchmark's own report or log", _WITH.replace("PATH", "FILE"), _is_benchmark, facts=_benchmark_facts, beside="kpi"),
    saved_result("latencies", "compare"),
    Kind("latencies", "latencies measured without a profiler", _TWO, _are_latencies,
         facts=_latencies_facts, refusal="latencies-as-side", beside="latencies",
         instead=f"two of them: {_TWO}; beside traces: {_WITH}"),
))  # fmt: skip


def are_latencies(path: Path) -> bool:
    """Whether a file holds latencies."""
    with suppress(TracediffError, OSError):
        kind = recognise(path)
        return kind is not None and kind.beside == "latencies"
    return False
