"""latencies: measurements without a profiler, one value an iteration."""

from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.recognise import HEAD, Kind, saved_result


def _fits(path: Path, head: bytes) -> bool:
    from tracediff.companions.latencies.read import SUFFIXES, UnsettledError, parse, recognise

    if recognise(path) is not None:
        return True
    if not path.is_file() or path.suffix.lower() not in SUFFIXES or path.stat().st_size > HEAD << 6:
        return False
    try:
        parse(path)
    except UnsettledError:
        return True
    except TracediffError as error:  # a table with a bad cell is said to be one
        return error.slug == "latencies-bad-value" and path.suffix.lower() in (".csv", ".tsv")
    return True


def _facts(path: Path) -> tuple[list[str], str]:
    from tracediff.companions.latencies.read import UnsettledError, read

    try:
        found = read(path)
    except UnsettledError as error:
        options = {"latencies-unit": " --unit ns|us|ms|s", "latencies-column": " --column NAME"}
        return [error.message], options[error.slug]
    count = "1 latency" if len(found.ns) == 1 else f"{len(found.ns)} latencies"
    return [f"format: {found.format}", count], ""


KINDS = (
    saved_result("latencies"),
    Kind("latencies", "latencies measured without a profiler", "tracediff latencies BASELINE CANDIDATE", _fits, facts=_facts,
         refusal="latencies-as-side",
         instead="tracediff latencies BASELINE CANDIDATE; beside traces: tracediff compare A B --latencies-baseline PATH"
         " --latencies-candidate PATH"),
)  # fmt: skip
