"""latencies: measurements without a profiler, one value an iteration."""

from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.recognise import Kind, saved_result


def _fits(path: Path, head: bytes) -> bool:
    from tracediff.companions.latencies.read import recognise

    return recognise(path) is not None


def _facts(path: Path) -> tuple[list[str], str]:
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


KINDS = (
    saved_result("latencies"),
    Kind("latencies", "latencies measured without a profiler", "tracediff latencies BASELINE CANDIDATE", _fits, facts=_facts,
         refusal="latencies-as-side",
         instead="tracediff latencies BASELINE CANDIDATE; beside traces: tracediff compare A B --latencies-baseline PATH"
         " --latencies-candidate PATH"),
)  # fmt: skip
