"""Every slug in the code is explained in docs/messages.md, and nothing else is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _slugs() -> set[str]:
    found = set()
    for path in (ROOT / "tracediff").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):  # of a kind of file that is no side of a comparison
                found |= {
                    one.value.value
                    for one in node.keywords
                    if one.arg == "refusal" and isinstance(one.value, ast.Constant)
                }
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("TracediffError", "Note"):
                found.add(node.args[0].value)
    return found


def test_messages_are_documented():
    documented = set(
        re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs/messages.md").read_text(encoding="utf-8"), re.M)
    )
    assert _slugs() == documented
