"""Draws docs/pictures/packages.svg from the imports of the code: `python docs/make_architecture.py`."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tracediff"
PICTURE = ROOT / "docs" / "pictures" / "packages.svg"
# A package imports only packages before it. Companions stand beside the core: nothing of the core imports them.
ORDER = (
    "errors", "model", "formats", "kernels", "trace", "accounting", "steps", "execution", "stats", "comparison", "query", "report",
    "capture", "request", "companions", "session", "api", "cli",
)  # fmt: skip
CORE = ("formats", "kernels", "trace", "accounting", "steps", "execution", "stats", "comparison", "report")
ENTRIES = ("api", "cli")


def module_imports(source: str) -> set[str]:
    """The modules of the project that a source imports anywhere, as dotted names without `tracediff.`; both `a.b` and `a.b.name`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which package is meant"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("tracediff.") for name in found if name.startswith("tracediff.")}


def modules() -> dict[str, Path]:
    """Dotted name without `tracediff.` -> file, of every module."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name and name != "__main__":
            found[name] = path
    return found


def package_arrows() -> dict[str, set[str]]:
    """Package -> the packages that it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in modules().items():
        here = name.split(".")[0]
        found[here] |= {there.split(".")[0] for there in module_imports(path.read_text())} - {here}
    return {here: there & set(ORDER) for here, there in found.items()}


def lines(package: str) -> int:
    """Lines of Python and SQL in a package."""
    files = [file for file in (PACKAGE / package).rglob("*") if file.suffix in (".py", ".sql")]
    return sum(len(file.read_text().splitlines()) for file in files or [PACKAGE / f"{package}.py"])


def picture() -> str:
    """The packages as boxes, the core from left to right, an arrow from each to those that it imports."""
    places = {name: (10 + 142 * number, 120) for number, name in enumerate(CORE)}
    places |= {
        "cli": (10 + 142 * 8, 10),
        "api": (10 + 142 * 7, 10),
        "capture": (10, 10),
        "companions": (10 + 142 * 5, 10),
    }
    places |= {"query": (10 + 142 * 6, 10), "model": (10 + 142 * 3, 330), "errors": (10 + 142 * 5, 330)}
    wide, high = 122, 44
    arrows = package_arrows()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {20 + 142 * len(CORE)} 390" font-family="sans-serif" font-size="14">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for here in ORDER:
        for there in sorted(arrows.get(here, set()), key=ORDER.index):
            if here not in places or there not in places or there in ("model", "errors"):
                continue
            (x1, y1), (x2, y2) = places[here], places[there]
            if y1 == y2 == 120:
                bend = 175 + 11 * abs(ORDER.index(here) - ORDER.index(there))
                shape = f"M{x1 + wide / 2 - 8} {y1 + high} Q{(x1 + x2 + wide) / 2} {bend + 40} {x2 + wide / 2 + 8} {y2 + high}"
            else:
                shape = f"M{x1 + wide / 2} {y1 + high if y1 < y2 else y1} L{x2 + wide / 2} {y2 if y1 < y2 else y2 + high}"
            parts.append(f'<path d="{shape}" fill="none" stroke="#9aa5b1" stroke-width="1"/>')
    for name, (x, y) in places.items():
        fill = "#e3f2fd" if name in CORE else "#fff3e0" if name == "companions" else "#f1f3f5"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="6" fill="{fill}" stroke="#52606d"/>'
        )
        parts.append(f'<text x="{x + wide / 2}" y="{y + 19}" text-anchor="middle">{name}</text>')
        parts.append(
            f'<text x="{x + wide / 2}" y="{y + 35}" text-anchor="middle" font-size="11" fill="#52606d">{round(lines(name), -2):,} lines</text>'
        )
    parts.append(
        '<text x="10" y="382" font-size="12" fill="#52606d">A line goes from a package to those before it that it imports. All may import model and errors.</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
