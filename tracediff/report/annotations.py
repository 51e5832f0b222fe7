"""Gates as workflow commands of GitHub Actions: `::error title=...::...` on a run's page."""

from __future__ import annotations

from tracediff.errors import inert as inert
from tracediff.model import Gates, Result
from tracediff.report import words
from tracediff.report.escape import neutral, shorten, visible

_LONGEST = 1_000  # characters of a message


def render_annotations(result: Result) -> list[str]:
    """Return the lines: the verdict as a notice, then what did not pass; failed is an error, the rest warnings."""
    gates = result.gates or Gates([])  # as they are: what would harm a runner is escaped below
    result = neutral(result)
    verdict = words.VERDICTS[result.verdict].word
    lines = [
        _command(
            "notice",
            f"tracediff: {verdict}",
            f"{result.headline.text} {result.verdict_reason}".strip(),
        )
    ]
    for gate in gates.outcomes:
        if gate.outcome == "passed":
            continue
        error = gate.outcome == "failed" and gate.severity == "error"
        title = f"tracediff gate {shorten(gate.text, 100)}: {gate.outcome}"
        lines.append(_command("error" if error else "warning", title, gate.message))
    return lines + [_command("warning", "tracediff policy", note) for note in gates.notes]


def _command(kind: str, title: str, message: str) -> str:
    """One command; what would end it or begin another is escaped as the runner reads it back."""
    return f"::{kind} title={_escape(title, ':,')}::{_escape(shorten(message, _LONGEST))}"


def _escape(text: str, more: str = "") -> str:
    text = visible(" ".join(text.split()))
    for char in "%" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return inert(text)


def guard(text: str) -> str:
    """Make printed lines mere text to a runner: none begins with `::`, none holds `##[`.

    A name of a kernel may begin a line, and `::` is part of many; a zero-width space parts it from the line's start.
    """
    lines = inert(text).split("\n")
    return "\n".join(f"\u200b{line}" if line.lstrip().startswith("::") else line for line in lines)
