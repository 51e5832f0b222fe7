"""bench: what the benchmark itself reported of a run."""

from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.recognise import Kind, counted


def _fits(path: Path, head: bytes) -> bool:
    from tracediff.companions.bench.read import read

    if not head or b"\0" in head:
        return False
    try:
        read(path)
    except TracediffError:
        return False
    return True


def _facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.bench.read import read

    report = read(path)
    figures, iterations = counted(len(report.metrics), "figure"), counted(len(report.iterations), "iteration")
    return [f"format: {report.kind}", f"{figures}, {iterations}"], ""


KINDS = (
    Kind("benchmark", "a benchmark's own report or log",
         "tracediff compare A B --baseline-kpi FILE --candidate-kpi FILE", _fits, facts=_facts),
)  # fmt: skip
