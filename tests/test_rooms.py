"""The shape of the code: which room may import which, how long a file may be, and where SQL lives."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tracediff"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Each room imports itself and the rooms to its left; the command line sits on top of all.
ROOMS = ("capture", "load", "align", "measure", "query", "report")
LEAVES = ("errors", "model")  # everything may import them; they import nothing else of the project
VERSION_ONLY = "tracediff"  # `import tracediff` for its version number
API = "api"  # the Python interface: above all rooms, beside the command line
MAX_LINES = 400


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(source: str) -> set[str]:
    """Every module of the project that a source imports, anywhere in it, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which room is meant"
            module = node.module or ""
            found |= {f"{module}.{alias.name}" if module == "tracediff" else module for alias in node.names}
    return {name for name in found if name == "tracediff" or name.startswith("tracediff.")}


def room(dotted: str) -> str:
    """The room or leaf of a dotted name: `tracediff.companions.bench.read` -> load; '' for the package itself."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


def allowed(inside: str) -> set[str]:
    """What a room may import of the project."""
    if inside in LEAVES:
        return {inside}
    if inside == "cli":
        return {"", *LEAVES, *ROOMS, "cli"}
    if inside == API:
        return {*LEAVES, *ROOMS}
    if inside == "__main__":
        return {"cli"}
    return {"", *LEAVES, *ROOMS[: ROOMS.index(inside) + 1]}


def test_the_modules_are_found():
    assert {room(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in MODULES} >= {
        *ROOMS,
        *LEAVES,
        "cli",
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_imports_only_rooms_to_its_left(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    inside = parts[0]
    if inside == "__init__":
        # only for type checkers: `import tracediff` is cheap (tests/test_api.py measures it)
        assert imports(path.read_text()) == {"tracediff.api", "tracediff.errors"}
        return
    wrong = {name for name in imports(path.read_text()) if room(name) not in allowed(inside)}
    assert wrong == set(), f"{name_of(path)} must not import {sorted(wrong)}"


def test_the_rule_itself():
    """A check of the check: imports inside functions and under TYPE_CHECKING count."""
    source = "from tracediff.report import html\ndef f():\n    import tracediff.cli.main\n"
    source += "    from tracediff import model\nimport os"
    assert imports(source) == {"tracediff.report", "tracediff.cli.main", "tracediff.model"}
    assert [room(name) for name in sorted(imports(source))] == ["cli", "model", "report"]
    assert (
        "load" not in allowed("capture") and "measure" not in allowed("align") and "report" in allowed("cli")
    )
    assert allowed("model") == {"model"}


LEAF_FILES = [path for path in MODULES if path.relative_to(PACKAGE).with_suffix("").parts[0] in LEAVES]


@pytest.mark.parametrize("path", LEAF_FILES, ids=name_of)
def test_leaves_import_nothing_heavy(path):
    tree = ast.parse(path.read_text())
    top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    top |= {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    heavy = {one for one in top if not one or not one.startswith("tracediff.model")}
    assert heavy <= {"__future__", "typing", "msgspec", "re"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_too_long(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


# SQL

LONG_SQL = re.compile(r"\bSELECT\b.*\bGROUP BY\b", re.DOTALL)
EVIDENCE = PACKAGE / "measure" / "evidence.py"  # queries that a user runs on the export itself


def strings(source: str) -> list[str]:
    """String literals, those side by side joined, f-strings by their fixed parts; docstrings left out."""
    tree = ast.parse(source)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(part.value for part in node.values if isinstance(part, ast.Constant)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            found.append(node.value)
    return found


@pytest.mark.parametrize("path", [path for path in MODULES if path != EVIDENCE], ids=name_of)
def test_long_sql_lives_in_files(path):
    long = [text for text in strings(path.read_text()) if len(text) > 300 and LONG_SQL.search(text)]
    assert long == []


def test_long_sql_would_be_seen():
    query = "SELECT a, count(*) FROM t WHERE " + "x = 1 AND " * 30 + "y GROUP BY a"
    assert [
        text for text in strings(f"q = ({query[:50]!r}\n    {query[50:]!r})") if LONG_SQL.search(text)
    ] == [query]
    assert strings(f'def f():\n    """{query}"""') == []


SQL_FILES = sorted((PACKAGE / "sql").rglob("*.sql"))


@pytest.mark.parametrize("path", SQL_FILES, ids=name_of)
def test_a_query_says_what_its_columns_are(path):
    """The header comment names the table (or the result) and the types of its columns."""
    header = []
    for line in path.read_text().splitlines():
        if not line.startswith("--"):
            break
        header.append(line)
    text = "\n".join(header)
    assert header, "no header comment"
    assert re.search(
        r"\b(BIGINT|INTEGER|VARCHAR|BOOLEAN|UBIGINT|UTINYINT|DOUBLE)\b|columns of \w+\.sql", text
    )


@pytest.mark.parametrize("path", SQL_FILES, ids=name_of)
def test_every_query_is_used(path):
    name = str(path.relative_to(PACKAGE / "sql").with_suffix(""))
    users = [name_of(module) for module in MODULES if name in module.read_text()]
    assert users, f"{name}.sql is named nowhere"
    assert path.parent.name in ROOMS


@pytest.mark.parametrize("path", SQL_FILES, ids=name_of)
def test_every_window_of_a_query_has_an_order(path):
    """Numbering without an order gives other numbers on another day."""
    text = re.sub(r"--[^\n]*", "", path.read_text())
    for function in ("row_number()", "dense_rank()", "rank()"):
        for at in (found.start() for found in re.finditer(re.escape(function), text)):
            tail = text[at : at + 120]
            assert "ORDER BY" in tail or re.search(r"OVER \w+", tail), tail
