"""Pages of the site that lie outside docs/: they stay where readers of the repository look for them.

mkdocs calls the functions by their names: https://www.mkdocs.org/dev-guide/plugins/#events
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/tracediff/tracediff/blob/main"
# File of the repository -> page of the site.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links between files of the repository at pages of the site, or at the repository where the site has none.

    The home page is docs/README.md, and stands for the README of the repository too. Blocks that are marked as
    run by tests (`sh run`) are plain shell here.
    """
    markdown = re.sub(r"(?m)^(```\w+) run\b.*$", r"\1", markdown)
    home = {page_name: source for source, page_name in PAGES.items()}
    source = Path(home.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    return _LINK.sub(lambda match: _target(match[1], source) + (match[2] or ""), markdown)


def _target(link: str, source: Path) -> str:
    if ":" in link:
        return link
    path = (ROOT / source.parent / link).resolve()
    if not path.is_relative_to(ROOT):
        return link
    name = path.relative_to(ROOT).as_posix()
    if name == "README.md":
        return "README.md"
    if name in PAGES:
        return PAGES[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"{REPOSITORY}/{name}"
