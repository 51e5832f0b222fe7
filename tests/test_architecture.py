"""The shape of the code: which package may import which, no import circles, English in its place, and where SQL lives."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tracediff"
_SPEC = importlib.util.spec_from_file_location("make_architecture", ROOT / "docs" / "make_architecture.py")
assert _SPEC is not None and _SPEC.loader is not None
architecture = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(architecture)
architecture.module_imports = cache(architecture.module_imports)  # four tests ask for those of all modules
MODULES = architecture.modules()
SQL_FILES = sorted(PACKAGE.rglob("*.sql"))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_every_package_has_its_place():
    assert {name.split(".")[0] for name in MODULES} == set(architecture.ORDER)


def test_a_package_imports_only_packages_before_it():
    arrows = architecture.package_arrows()
    back = {here: arrows[here] - set(architecture.ORDER[:at]) for at, here in enumerate(architecture.ORDER)}
    assert {here: found for here, found in back.items() if found} == {}


def test_capture_imports_little():
    """It runs on the GPU machine: recording must not need what comparing needs."""
    assert architecture.package_arrows()["capture"] <= {"errors", "formats", "write"}


def test_no_import_circles():
    """Imports inside functions count, and those for type checkers alone."""
    uses = {
        name: {one for one in architecture.module_imports(path.read_text()) if one in MODULES and one != name}
        for name, path in MODULES.items()
    }
    left = dict(uses)
    while free := [name for name, used in left.items() if not used & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}, "these modules import each other, or modules that do"


def test_the_reading_of_imports():
    source = "from tracediff.report import html\ndef f():\n    import tracediff.cli.main\nimport os"
    assert architecture.module_imports(source) == {"report", "report.html", "cli.main"}


def test_the_picture_is_drawn_from_these_imports():
    """Line counts are rounded to hundreds, and may lag behind a little."""

    def shape(svg: str) -> list[str]:
        return [line for line in svg.splitlines() if " lines</text>" not in line]

    assert shape(architecture.PICTURE.read_text()) == shape(architecture.picture()), (
        "python docs/make_architecture.py"
    )


def test_model_and_errors_import_nothing_heavy():
    light = {"__future__", "dataclasses", "typing", "msgspec", "re"}
    heavy = []
    for name, path in MODULES.items():
        if name.startswith(("model", "errors")):
            tree = ast.parse(path.read_text())
            top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
            top |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
            heavy += [(name, one) for one in top - light if not one.startswith("tracediff.model")]
    assert heavy == []


# SQL

LONG_SQL = re.compile(r"\bSELECT\b.*\bGROUP BY\b", re.DOTALL)


def strings(source: str) -> list[str]:
    """String literals, those side by side joined, f-strings by their fixed parts; docstrings left out."""
    tree = ast.parse(source)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(part.value for part in node.values if isinstance(part, ast.Constant)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            found.append(node.value)
    return found


def test_long_sql_lives_in_files():
    long = [
        (name_of(path), text)
        for path in MODULES.values()
        if LONG_SQL.search(source := path.read_text())  # most have none: to read their strings takes 2 s
        for text in strings(source)
        if len(text) > 300 and LONG_SQL.search(text)
    ]
    assert long == []


TYPE = re.compile(r"\b(BIGINT|HUGEINT|INTEGER|VARCHAR|BOOLEAN|UBIGINT|UTINYINT|DOUBLE)\b|columns of \w+\.sql")


def test_a_query_says_what_its_columns_are():
    """A comment at its head says what it gives; the types of the columns stand there or beside each column."""
    assert SQL_FILES
    untold = [
        name_of(path)
        for path in SQL_FILES
        if not (path.read_text().startswith("--") and TYPE.search(path.read_text()))
    ]
    assert untold == []


def test_every_query_is_used():
    """By its name."""
    sources = "\n".join(module.read_text() for module in MODULES.values())
    unused = []
    for path in SQL_FILES:
        package, _, file = path.relative_to(PACKAGE).with_suffix("").parts
        begun = (f'"{package}/{file[:size]}{{' for size in range(len(file)))
        names = (f'"{package}/{file}"', f'"{file}"', *begun)
        if not any(name in sources for name in names):
            unused.append(name_of(path))
    assert unused == []


def test_every_window_of_a_query_has_an_order():
    """Numbering without an order gives other numbers on another day."""
    unordered = []
    for path in SQL_FILES:
        text = re.sub(r"--[^\n]*", "", path.read_text())
        for found in re.finditer(r"\b(?:row_number|dense_rank|rank)\(\)", text):
            tail = text[found.start() : found.start() + 120]
            if "ORDER BY" not in tail and not re.search(r"OVER \w+", tail):
                unordered.append((name_of(path), tail))
    assert unordered == []
