"""Several results in one pull-request comment: a sentence for each, the worst first, and each one's own comment folded below."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tracediff.model import GateOutcome, Outcome, Result, Verdict
from tracediff.report import units, words
from tracediff.report.escape import markdown_code, markdown_prose, shorten, visible
from tracediff.report.markdown import length, marker, parts

MOST = 60_000  # bytes; a forge takes 65,536 characters
_LISTED = 60  # with a sentence of at most so many characters
_SENTENCE = 300
_WORST: tuple[Verdict, ...] = (
    "regressed", "likely_regressed", "not_comparable", "inconclusive", "no_change", "likely_improved", "improved",
)  # fmt: skip
_OUTCOMES: tuple[Outcome, ...] = ("failed", "inconclusive", "waived", "passed")


def render_many(results: Mapping[str, Result], top: int = 10, key: str = "", link: str = "") -> str:
    """Return the comment on results by name; `top` as for one result, `link` the address where their reports can be read."""
    ordered = sorted(results.items(), key=lambda one: _order(one[1]))
    found = Counter(result.verdict for _, result in ordered)
    verdicts = ", ".join(f"{found[one]} {words.VERDICTS[one].word.lower()}" for one in _WORST if found[one])
    gates = _gates(one for _, result in ordered for one in _errors(result))
    text = (
        f"{units.counted(len(ordered), 'benchmark')}: {verdicts}{f'; gates: {gates}' if gates else ''}.\n\n"
    )
    text += "\n".join(_line(name, result) for name, result in ordered[:_LISTED])
    if len(ordered) > _LISTED:
        text += f"\n- {len(ordered) - _LISTED} more, none of them worse, are in their JSON"
    if link:
        text += f"\n\n[HTML reports]({link})"
    return f"{text}{_folded(ordered[:_LISTED], top, MOST - length(text))}\n\n{marker(key)}\n"


def _order(result: Result) -> tuple[int, int, float]:
    """Gates before verdicts: they decide the exit status."""
    worst = min((_OUTCOMES.index(one.outcome) for one in _errors(result)), default=len(_OUTCOMES))
    base = result.step.baseline_ns
    return worst, _WORST.index(result.verdict), -(result.step.delta_ns / base if base else 0.0)


def _errors(result: Result) -> list[GateOutcome]:
    return [one for one in result.gates.outcomes if one.severity == "error"] if result.gates else []


def _gates(outcomes: Iterable[GateOutcome]) -> str:
    found = Counter(one.outcome for one in outcomes)
    return ", ".join(f"{found[one]} {one}" for one in _OUTCOMES if found[one])


def _line(name: str, result: Result) -> str:
    verdict, gates = words.VERDICTS[result.verdict], _gates(_errors(result))
    said = markdown_prose(result.headline.text or verdict.word, _SENTENCE)
    return f"- {verdict.sign} **{markdown_code(name, 60)}**: {said}{f' Gates: {gates}.' if gates else ''}"


def _folded(ordered: Sequence[tuple[str, Result]], top: int, room: int) -> str:
    """Each result's own comment; where they do not all fit, what is read at once of each, and then of the worst only."""
    room -= 200
    heads, whole = "", ""
    for number, (name, result) in enumerate(ordered):
        head, fold = parts(result, top)
        more = _fold(name, head)
        if length(heads + more) > room:
            return f"{heads}\n\nTruncated: {len(ordered) - number} more are in their HTML reports and JSON."
        heads += more
        whole += _fold(name, f"{head}\n\n{fold}")
    return whole if length(whole) <= room else heads


def _fold(name: str, text: str) -> str:
    return f"\n\n<details><summary><code>{html.escape(shorten(visible(name), 60))}</code></summary>\n\n{text}\n\n</details>"
