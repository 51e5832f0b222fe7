"""How large a page of the HTML report is, and how soon it is open: `python -m benchmarks.page`.

The pair has 10,000 ops in every step (see fixtures/builders/wide.py). Prints bytes, and of headless Chromium the first
contentful paint, the end of loading, and the time its main thread was busy, ms: the median of five openings.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from fixtures.builders import wide
from tests.report.browser import launched
from tracediff.comparison.compare import compare
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.report.html import render_html

OPS, STEPS, OPENINGS = 10_000, 4, 5
_TIMES = """(() => {
  const load = performance.getEntriesByType("navigation")[0];
  return [performance.getEntriesByName("first-contentful-paint")[0].startTime, load.loadEventEnd];
})()"""


def main() -> None:
    """Build, reduce with and without steps to draw, render, open."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = []
        for side, slower in (("baseline", 0), ("candidate", 300)):
            path = wide.trace(OPS, STEPS, slower).write(folder / f"{side}.sqlite")
            for keep in (False, True):
                began = time.perf_counter()
                reduced = reduce_file(path, Reading(keep=keep))
                print(f"{side}: reduced in {time.perf_counter() - began:.2f} s, steps kept to draw: {keep}")
            sides.append(Side(side, [Run(side, [reduced])]))
        began = time.perf_counter()
        page = render_html(compare(*sides)).encode()
        print(f"compared and rendered in {time.perf_counter() - began:.2f} s: {len(page):,} bytes")
        file = folder / "page.html"
        file.write_bytes(page)
        opened = []
        with launched() as browser:
            for _ in range(OPENINGS):
                tab = browser.new_context().new_page()
                metrics = tab.context.new_cdp_session(tab)
                metrics.send("Performance.enable")
                tab.goto(file.as_uri())
                busy = {
                    one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]
                }
                opened.append((*tab.evaluate(_TIMES), 1_000 * busy["TaskDuration"]))
                tab.context.close()
        paint, load, task = (statistics.median(column) for column in zip(*opened, strict=True))
        print(f"first paint {paint:.0f} ms, loaded {load:.0f} ms, main thread busy {task:.0f} ms")


if __name__ == "__main__":
    main()
