"""latencies: measurements without a profiler, one value an iteration."""

from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.recognise import HEAD, Kind, saved_result


def _fits(path: Path, head: bytes) -> bool:
    from tracediff.companions.latencies.read import SUFFIXES, parse, recognise

    if recognise(path) is not None:
        return True
    if not path.is_file() or path.suffix.lower() not in SUFFIXES or path.stat().st_size > HEAD << 6:
        return False
    try:
        parse(path)
    except TracediffError as error:
        # one of several series, or a unit, is asked for with an option; a table with a bad cell is said to be one
        asked = bool(_option(error)) and "no column or key" not in error.message
        return asked or (error.slug == "latencies-bad-value" and path.suffix.lower() in (".csv", ".tsv"))
    return True


def _option(error: TracediffError) -> str:
    """The option that would settle what the reader could not."""
    options = {"--unit": " --unit ns|us|ms|s", "--column": " --column NAME"}
    return next((option for name, option in options.items() if (error.fix or "").startswith(name)), "")


def _facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.latencies.read import read

    try:
        found = read(path)
    except TracediffError as error:
        if _option(error):
            return [error.message], _option(error)
        raise
    return [
        f"format: {found.format}",
        f"{len(found.ns)} {'latency' if len(found.ns) == 1 else 'latencies'}",
    ], ""


KINDS = (
    saved_result("latencies"),
    Kind("latencies", "latencies measured without a profiler", "tracediff latencies BASELINE CANDIDATE", _fits, facts=_facts,
         refusal="latencies-as-side",
         instead="tracediff latencies BASELINE CANDIDATE; beside traces: tracediff compare A B --latencies-baseline PATH"
         " --latencies-candidate PATH"),
)  # fmt: skip
