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
    "errors", "arrays", "model", "formats", "write", "kernels", "trace", "limits", "accounting", "steps", "whatif", "execution", "stats", "comparison", "history", "query", "report",
    "capture", "bisect", "request", "companions", "session", "api", "agents", "cli",
)  # fmt: skip
SIZE, LEFT, TOP = 26, 210, 96  # pixels: a cell of the matrix, and the room for names


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
    """A matrix: a row a package, a dot in the column of each package that it imports. No dot lies right of the diagonal."""
    arrows = package_arrows()
    wide, high = LEFT + SIZE * len(ORDER) + 50, TOP + SIZE * len(ORDER) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for row, here in enumerate(ORDER):
        x, y = LEFT + SIZE * row, TOP + SIZE * row
        parts += [
            f'<rect x="{LEFT}" y="{y}" width="{SIZE * row}" height="{SIZE}" fill="{"#f3f6f9" if row % 2 else "#fff"}"/>',
            f'<rect x="{x}" y="{y}" width="{SIZE}" height="{SIZE}" fill="#cfd8e3"/>',
            f'<text x="{LEFT - 12}" y="{y + 17}" text-anchor="end">{here}</text>',
            f'<text x="12" y="{y + 17}" font-size="11" fill="#52606d">{round(lines(here), -2) or 100:,} lines</text>',
            f'<text transform="translate({x + 17} {TOP - 8}) rotate(-60)">{here}</text>',
        ]
        for there in sorted(arrows.get(here, set()), key=ORDER.index):
            parts.append(
                f'<circle cx="{LEFT + SIZE * ORDER.index(there) + SIZE / 2}" cy="{y + SIZE / 2}" r="5" fill="#1f5fa8"/>'
            )
    parts.append(
        f'<text x="12" y="{high - 14}" font-size="12" fill="#52606d">A dot: the package of the row imports the package of the column.</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
