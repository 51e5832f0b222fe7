"""`python -m benchmarks.agents`: questions.toml put to a language model, with the tools of `tracediff mcp` and without.

prepare DIR        the captures of each question as plain exports, under names that say nothing, and questions.md
judge FILE.json... count the right answers: {"q01": {"range": ..., "us": ...}, ...}

The model gets the tools from a client of `tracediff mcp --root DIR`.
"""

from __future__ import annotations

import json
import lzma
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIXTURES = HERE.parent.parent / "fixtures"


def questions() -> list[dict[str, Any]]:
    """Every question with its captures, its text and the fields of its answer."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "questions.toml").read_text())["question"]
    return found


def prepare(folder: Path) -> None:
    """Write DIR/q01/a/run_1.sqlite, ... and DIR/questions.md, which says what to answer and nothing else."""
    lines = ["Answer as JSON: an object with a key for each question, whose value has the named fields.\n"]
    for one in questions():
        for side, names in (("a", one["baseline"]), ("b", one["candidate"])):
            place = folder / one["id"] / side
            place.mkdir(parents=True)
            for number, path in enumerate(captures(names), 1):
                (place / f"run_{number}.sqlite").write_bytes(lzma.decompress(path.read_bytes()))
        fields = [
            f"`{name}` (one of: {'; '.join(how['choices'])})" if "choices" in how else f"`{name}` ({'number' if 'number' in how else 'text'})"
            for name, how in one["fields"].items()
        ]  # fmt: skip
        lines.append(f"## {one['id']}\n{one['ask']}\nFields: {', '.join(fields)}.\n")
    (folder / "questions.md").write_text("\n".join(lines))


def captures(names: list[str]) -> list[Path]:
    """The files of one side, in order."""
    return [path for name in names for path in sorted(FIXTURES.glob(f"{name}.sqlite.xz"))]


def right(field: dict[str, Any], given: Any) -> bool:
    """Whether one field of an answer is right."""
    if "choices" in field:
        return given in field["right"]
    if "has" in field:
        return isinstance(given, str) and any(text.lower() in given.lower() for text in field["has"])
    return isinstance(given, int | float) and abs(given - field["number"]) <= field["within"]


def judge(given: dict[str, Any]) -> dict[str, list[str]]:
    """Question -> its wrong fields; none: right."""
    return {
        one["id"]: [
            name
            for name, how in one["fields"].items()
            if not right(how, (given.get(one["id"]) or {}).get(name))
        ]
        for one in questions()
    }


def main(words: list[str]) -> None:
    """Do what the module's text says."""
    match words:
        case ["prepare", folder]:
            prepare(Path(folder))
        case ["judge", *files] if files:
            for file in files:
                wrong = judge(json.loads(Path(file).read_text()))
                print(f"{file}: {sum(not one for one in wrong.values())} of {len(wrong)} right")
                print(
                    *(f"  {name}: wrong: {', '.join(fields)}" for name, fields in wrong.items() if fields),
                    sep="\n",
                )
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
