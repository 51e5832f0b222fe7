"""A trace whose names are meant to harm, and its twin with harmless names of the same shape."""

from __future__ import annotations

from pathlib import Path

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import serving
from tests.tiny import reduced
from tracediff.execution.sides import Run, Side
from tracediff.model import Result

NAMES = (
    "<script>window.harmed = 1</script>",
    '"onload="window.harmed = 1',
    "'><img src=x onerror=window.harmed=1>",
    "</title></svg><svg onload=window.harmed=1>",
    "</textarea><script>window.harmed = 1</script>",
    "two\nlines\r\nof it",
    "right \u202e to \u2066 left \u200f marks",
    "x" * 10_000,
    "fire \U0001f525 and \U0001f9d1\u200d\U0001f4bb",
    "nul \x00 byte",
    "{{ 7 * 7 }} {% raw %}",
    "]]> --> <!-- & &amp; &#60;",
    "javascript:window.harmed=1",
)


def harmless(name: str) -> str:
    """The same name with nothing in it that any format could mean something by.

    A character that is shown by its escape gives way to as many letters, so that names are cut at the same lengths.
    """
    from tracediff.report.escape import visible

    return "".join(one if one.isalnum() and one.isascii() else "x" * len(visible(one)) for one in name)


def result(folder: Path, *, harm: bool) -> Result:
    """Compare two runs of a loop whose kernels, ranges and threads carry the names."""
    return compare(*sides(folder, harm=harm))


def sides(folder: Path, *, harm: bool) -> list[Side]:
    """Two sides of a run each, the second with slower kernels."""
    found = []
    for side, kernel_us in (("baseline", 20.0), ("candidate", 24.0)):
        place = folder / f"{side}-{harm}"
        place.mkdir()
        trace = _named(serving(8, kernel_us=kernel_us, gil=True, gc_us=3.0), harm=harm, slower=kernel_us > 20)
        label = NAMES[0] if harm else harmless(NAMES[0])
        found.append(Side(label, [Run(label, [reduced(trace, place, keep=True)])]))
    return found


def _named(trace: TraceBuilder, *, harm: bool, slower: bool) -> TraceBuilder:
    names = [name if harm else harmless(name) for name in NAMES]
    step_us = 100 + 5 + 2 + 3 * (24 if slower else 20)
    for step in range(8):
        begin = step * step_us * 1000
        for number, name in enumerate(names):
            at = begin + 1_000 + number * 3_000
            corr = 100_000 + step * 100 + number
            trace.range(1, name, at, at + 2_500)
            trace.api(1, "cudaLaunchKernel", at + 100, at + 300, corr=corr)
            trace.kernel(
                corr, at + 500, at + 1_200 + 100 * number + 50 * slower, name=f"k{number:02} {name}", stream=9
            )
    return trace  # fmt: skip
