"""Takes the pictures of docs/read.md and of the README from the demo's real report: `python docs/make_pictures.py` (needs [dev] and Chromium).

A picture shows one section of the page, cut after `TALLEST` pixels: the page itself has the rest.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
PAIR = HERE.parent / "fixtures" / "bundles" / "hog300"
WIDTH, TALLEST, COLOURS = 1280, 720, 128  # pixels; the palette keeps each file under 100 KB
# Picture -> the element of the page, and where it is cut.
PICTURES = {
    "../report": ("header.summary", 740),
    "pictures": ("#pictures", 1240),
    "accounting": ("#accounting", TALLEST),
    "findings": ("#finding-1", TALLEST),
    "strip": ("#step-strip", 420),
    "steps": ("#steps", 420),
    "timelines": ("#timelines", TALLEST),
    "gaps": ("#gaps", 460),
    "kernels": ("#kernels", 460),
    "launch": ("#launch", 460),
    "gil": ("#gil", 520),
    "comparability": ("#comparability", 460),
}

# Most sections are folded: open the one that is shown, and measure it with its heading.
OPEN = """selector => {
  const element = document.querySelector(selector), fold = element.closest('details')
  if (fold) fold.open = true
  const { top, height } = (fold || element).getBoundingClientRect()
  return { y: top + scrollY, height }
}"""


def main() -> None:
    """Write docs/report.png and docs/pictures/*.png."""
    folder = HERE / "pictures"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        report = Path(scratch, "report.html")
        command = [sys.executable, "-m", "tracediff", "compare", str(PAIR), "--html", str(report), "-q"]
        subprocess.run(command, check=True)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )  # fmt: skip
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(report.as_uri())
        for name, (selector, height) in PICTURES.items():
            box = page.evaluate(OPEN, selector)
            clip = {"x": 0, "y": box["y"], "width": WIDTH, "height": min(box["height"], height)}
            png = page.screenshot(clip=clip, full_page=True)
            picture = Image.open(BytesIO(png)).convert("RGB").quantize(COLOURS, Image.Quantize.FASTOCTREE)
            picture.save(folder / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
