"""Every slug in the code is explained in docs/messages.md, and nothing else is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def _nodes() -> list[ast.AST]:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tracediff").rglob("*.py"))
    return [node for source in sources for node in ast.walk(ast.parse(source))]


def _raised() -> set[str]:
    """Slugs that stand where an error or a note is made."""
    return {
        node.args[0].value
        for node in _nodes()
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("TracediffError", "UsageError", "Note")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def _patterns() -> set[str]:
    """Every text of the code that may be a slug, those of tables among them; `{}` as `.*`."""
    found = set()
    for node in _nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(re.escape(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = (
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values
            )
            found.add("".join(parts))
    slugs = (text for text in found if re.fullmatch(r"[a-z0-9.+\\-]+", text))
    return {text for text in slugs if len(re.findall("[a-z]", text)) > 2 and text.count(".+") < 2}


def test_messages_are_documented():
    documented = set(
        re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs/messages.md").read_text(encoding="utf-8"), re.M)
    )
    assert _raised() <= documented
    patterns = _patterns()
    left = documented - {one.replace("\\", "") for one in patterns}
    code = re.compile("|".join(sorted(one for one in patterns if ".+" in one)))
    assert {slug for slug in left if not code.fullmatch(slug)} == set()
