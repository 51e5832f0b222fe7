"""The site of the documentation builds without a warning: every page is in its menu, every link and anchor leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.tiny import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="needs mkdocs-material, in [dev]")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_and_pictures_are_there(site):
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"} <= {
        path.stem for path in site.glob("*.html")
    }
    for page in ("index", "contributing", "security", "changelog", "benchmarks"):
        assert (site / f"{page}.html").stat().st_size > 5_000
    assert (site / "pictures" / "packages.svg").exists()


def test_nothing_of_a_page_is_loaded_from_elsewhere(site):
    for path in site.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = [part.split('"')[0] for part in text.split(' src="')[1:]]
        assert all(not source.startswith(("http", "//")) for source in loaded), path.name
        assert "fonts.googleapis" not in text


def test_every_block_of_code_is_a_block(site):
    """Those that tests run carry words after their language, which the site's Markdown would take for no fence."""
    fences = sum(line.startswith("```") for line in (ROOT / "docs" / "compare.md").read_text().splitlines())
    assert (site / "compare.html").read_text(encoding="utf-8").count('<div class="highlight"') == fences / 2
