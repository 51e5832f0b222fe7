"""companions: inputs that stand beside traces. Each reads, compares and renders its own.

Importing this package lets the core recognise their files; readers are imported where a file may be theirs.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.files import missing
from tracediff.formats.recognise import Kind, counted, head_of, recognise, register, saved_result

_CHECKED = 64 << 20  # bytes of a file of trtexec that is read whole to say what is in it


def _ncu_facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.ncu.read import read

    profile = read(path)
    names = {launch.name for launch in profile.launches}
    launches = f"{len(profile.launches)} launch{'' if len(profile.launches) == 1 else 'es'}"
    facts = [f"{launches} of {counted(len(names), 'kernel')}"]
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
    figures, iterations = counted(len(report.metrics), "figure"), counted(len(report.iterations), "iteration")
    return [f"format: {report.kind}", f"{figures}, {iterations}"], ""


def _are_latencies(path: Path, head: bytes) -> bool:
    from tracediff.companions.latencies.read import recognise

    return recognise(path) is not None


def _latencies_facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.latencies.read import read

    options = {"latencies-unit": " --unit ns|us|ms|s", "latencies-column": " --column NAME"}
    try:
        found = read(path)
    except TracediffError as error:
        if error.slug not in options:
            raise
        return [error.message], options[error.slug]
    count = "1 latency" if len(found.ns) == 1 else f"{len(found.ns)} latencies"
    return [f"format: {found.format}", count], ""


_NCU = "tracediff ncu BASELINE CANDIDATE"
_WITH = "tracediff compare A B --with baseline=PATH --with candidate=PATH"
# ncu-csv before what would take any table; latencies last: many files hold numbers
register((
    # without facts: read by NVIDIA's own module, where that is installed
    Kind("ncu-report", "a report of Nsight Compute", _NCU, lambda path, head: head.startswith(b"NVR\0"), beside="ncu"),
    saved_result("ncu"),
    Kind("ncu-csv", "what ncu --csv printed", _NCU,
         lambda path, head: b"==PROF==" in head or (b'"ID"' in head and b'"Kernel Name"' in head), facts=_ncu_facts, beside="ncu"),
    saved_result("trtexec"),
    Kind("trtexec", "what trtexec printed or exported", "tracediff trtexec BASELINE CANDIDATE", _is_trtexec, facts=_trtexec_facts,
         refusal="trtexec-as-side", instead=f"tracediff trtexec BASELINE CANDIDATE; beside traces: {_WITH}", beside="trtexec"),
    Kind("benchmark", "a benchmark's own report or log", _WITH.replace("PATH", "FILE"), _is_benchmark, facts=_benchmark_facts, beside="kpi"),
    saved_result("latencies"),
    Kind("latencies", "latencies measured without a profiler", "tracediff latencies BASELINE CANDIDATE", _are_latencies,
         facts=_latencies_facts, refusal="latencies-as-side", beside="latencies",
         instead=f"tracediff latencies BASELINE CANDIDATE; beside traces: {_WITH}"),
))  # fmt: skip

_BY_FOLDER = ("trtexec", "latencies")  # whose readers take a folder as runs of a side
_LOOKED_AT = 1_000  # files of a folder


def beside(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """What stands beside the traces of a side, by the section of the result that it makes: ncu, trtexec, latencies, kpi.

    A folder is looked into, and what lies in its folders too. Raises `TracediffError`: not-a-file, with-unknown, with-unclear, and
    those of `recognise`.
    """
    found: dict[str, list[Path]] = {}
    for path in paths:
        if not path.exists():
            raise missing(path)
        files = sorted(islice((one for one in path.glob("**/*") if one.is_file()), _LOOKED_AT))
        known = {file: kind for file in files or [path] if (kind := recognise(file)) and kind.beside}
        sections = {kind.beside: kind.title for kind in known.values()}
        if not sections:
            kind = None if path.is_dir() else recognise(path)
            what = (
                f"is {kind.title}, and stands beside no traces"
                if kind
                else "holds nothing that stands beside traces"
            )
            raise TracediffError(
                "with-unknown",
                f"{path.name} {what}",
                fix="a benchmark's report or iteration log, latencies, files of trtexec, a profile of Nsight Compute: tracediff inputs PATH says what a file is",
                exit_code=2,
            )
        if len(sections) > 1:
            titles = " and ".join(sorted(sections.values()))
            raise TracediffError(
                "with-unclear", f"{path.name} holds {titles}", fix="name each apart", exit_code=2
            )
        (section,) = sections
        found.setdefault(section, []).extend([path] if section in _BY_FOLDER else known)
    if len(profiles := found.get("ncu", [])) > 1:
        names = ", ".join(one.name for one in profiles[:4])
        raise TracediffError(
            "with-unclear",
            f"{len(profiles)} profiles of Nsight Compute on one side: {names}",
            fix="name one",
            exit_code=2,
        )
    return found
