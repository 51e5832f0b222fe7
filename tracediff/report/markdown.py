"""The result as a pull-request comment: the first sentence, three causes and a table; what a reader of a request wants beside them is folded.

Everything else is in the HTML report and the JSON, which a comment links to.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tracediff.model import GateOutcome, Outcome, Result, Tool, Verdict
from tracediff.model.common import SIDES
from tracediff.report import (
    beside,
    blocks,
    document,
    findings,
    first,
    kernels,
    phrases,
    sections,
    units,
    waterfall,
    words,
    workloads,
)
from tracediff.report.amounts import LISTED, NAME, NAMED, PAGE, TEXT
from tracediff.report.blocks import Block, Code, Figure, Items, Line, Link, Listing, Span, Strong
from tracediff.report.escape import markdown_code, markdown_prose, neutral, shorten, visible
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE

LIMIT = 12_000  # bytes of a comment; a forge takes 65,536 characters
OPEN = 2_500  # bytes of it before what is folded
SHORT = 4_000  # bytes of it with sections: further ones are in the page
_TRUNCATED = "\n\n_Truncated: the comment reached its limit. The HTML report and the JSON hold everything._\n"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def marker(key: str = "") -> str:
    """Return the last line of a comment, by which a bot finds its own again; a key keeps several apart.

    Raises `ValueError` for a key that is more than letters, digits, dots, dashes and underscores.
    """
    if key and not _KEY.match(key):
        raise ValueError(key)
    return f"<!-- tracediff:{key} -->" if key else "<!-- tracediff -->"


MARKER = marker()


def length(text: str) -> int:
    """Bytes of a comment."""
    return len(text.encode("utf-8", "surrogatepass"))


def render_markdown(result: Result, top: int = 10, key: str = "", link: str = "", picture: str = "") -> str:
    """Return the comment; `top` is how many rows a folded table shows at most.

    Both addresses were checked by `report_link`: `link` is that of the HTML report, in which causes link to their place where it is a
    page, `picture` that of the waterfall as PNG, which is shown.
    """
    head, fold = parts(result, top, link, picture)
    return cut_to_limit(f"{head}\n\n{fold}").strip() + f"\n\n{marker(key)}\n"


def parts(result: Result, top: int = 10, link: str = "", picture: str = "") -> tuple[str, str]:
    """Return what is read at once and what is folded, without the marker."""
    result = neutral(result)
    if result.kernel_answers:  # nothing else but the verdict
        note = said_by(result.tool, "every_row", field="kernel_answers")
        return document.markdown(sections.answered(result), level=2, width=120, note=note).strip(), ""
    head, fold = _opening(result, link, picture).strip(), ""
    every = [blocks.titled(one, 1) for one in sections.sections(result) if one.depth <= 1]
    every = [(title, printed) for title, printed in every if printed]
    beside_it = [blocks.titled(one, 1) for one in beside.sections(result)]
    leading, rest = every[:1], [one for one in every[1:] if one not in beside_it]
    for width, rows in zip(range(4 * NAME, 0, -NAME), (top, PAGE, LISTED, NAMED), strict=True):
        rows = min(rows, top)
        fold = _folded(result, rows, width, [*leading, *beside_it]).strip()
        if length(head + fold) < LIMIT - 200:
            break
    for count in range(1, len(rest) + 1):
        longer = _folded(result, rows, width, [*leading, *rest[:count], *beside_it]).strip()
        if length(head + longer) > SHORT:
            break
        fold = longer
    return head, fold


def report_link(address: str) -> str:
    """Return the address where it is one that a comment may link to. Raises `ValueError`."""
    if not re.fullmatch(r"https?://[^\s<>()\[\]\\`\"'|]{1,2000}", address) or not address.isascii():
        raise ValueError(address)
    return address


def page_of(link: str) -> str:
    """The address where it is that of a page, in which causes have places; else empty."""
    return link if re.search(r"\.html?$", link) else ""


def cut_to_limit(text: str) -> str:
    """Cut at a line, close what is folded and say so; only a result with huge prose comes here."""
    most = LIMIT - 200
    if length(text) <= most:
        return text
    shown = text.encode("utf-8", "surrogatepass")[: most - len(_TRUNCATED)].decode("utf-8", "ignore")
    shown = shown[: shown.rfind("\n")]
    shown += "\n\n</details>" * (shown.count("\n<details>") - shown.count("\n</details>"))
    return shown + _TRUNCATED


def said_by(tool: Tool, pattern: str, **slots: str) -> str:
    """The last line of a report: what is elsewhere, and what wrote it."""
    return f"{say(pattern, **slots)} {tool.name} {tool.version}."


# What is read at once.


def _opening(result: Result, link: str, picture: str) -> str:
    text = ""
    for advise in (True, False):  # room for what to do about each cause comes after that for all else
        for width in range(3 * NAME, 0, -NAME):
            text = document.markdown(blocks=_first(result, link, picture, width, advise=advise), width=width)
            if length(text) <= OPEN:
                return text
    return text


def _first(result: Result, link: str, picture: str, width: int, *, advise: bool) -> list[Block]:
    causes, _ = words.listed(result)
    page = page_of(link)
    what, *others = first.lines(result)
    found: list[Block] = [Line([Strong(f"{words.VERDICTS[result.verdict].sign} {shorten(what, 700)}")])]
    found += [Line([text]) for text in others]
    if gates := _gates(result, width):
        found.append(Items(gates))
    labels = [Code(side.label) for side in (result.inputs.baseline, result.inputs.candidate)]
    links: list[Span] = [" ", Link("HTML report", "", link)] if link else []
    note = Line(
        [
            words.sentence(words.steps_note(result)),
            "; baseline ",
            labels[0],
            ", candidate ",
            labels[1],
            ".",
            *links,
        ]
    )
    recorded = [Line([text]) for text in [workloads.mix_note(result)] if text]
    found += [sections.phases_in_text(result), note, *recorded]
    if picture and result.accounting.delta:
        title = say("fall_title", step=waterfall.build(result).of_what)
        found.append(Figure("", title, "", picture))
    judged = any(phase.judged for phase in result.phases) or result.verdict == "not_comparable"
    if causes:
        found.append(findings.in_lines(result, causes[:NAMED], width, page, advise=advise))
    elif not judged and not result.host and not kernels.by_launch(result):
        found.append(Line([say("too_few_steps")]))
    found += [Line([say("captures_differ", text=shorten(text, TEXT))]) for text in _differs(result)]
    more = [" ".join(_share(result)), *(shorten(text, 350) for text in beside.gists(result))]
    return [*found, *(Line([text]) for text in more if text)]


def _share(result: Result) -> list[str]:
    """What part of the step time the numbers speak of, and the largest workload that they do not, where it is much."""
    large = any(workloads.most_of(one) >= LITTLE for one in result.strata if not one.compared)
    said = [workloads.step_share(result), *workloads.left_out(result)[:large]]
    return [one for one in said if one]


def _differs(result: Result) -> list[str]:
    """What the captures differ by, said beside the causes: the first of it."""
    return [text for _, text in words.problems(result) if not text.startswith("batch_mix")][:1]


def _gates(result: Result, width: int) -> list[list[Span]]:
    """A line for each gate that did not pass, one for those that did."""
    found = result.gates.outcomes if result.gates else []
    passed = [one for one in found if one.outcome == "passed"]
    others = [one for one in found if one.outcome != "passed"]
    lines = [
        ["Gate ", Code(one.text), " ", _outcome(one), f": {shorten(one.message, 2 * width)}"]
        for one in others[:LISTED]
    ]
    if more := others[LISTED:]:
        lines.append([say("gates_more", count=units.counted(len(more), "more gate"))])
    if passed:
        listed: list[Span] = [span for one in passed[:NAMED] for span in (", ", Code(one.text))]
        more = passed[NAMED:]
        lines.append(
            [say("gates_passed"), *listed[1:], *([say("gates_and", count=f"{len(more)}")] if more else [])]
        )
    return lines


def _outcome(gate: GateOutcome) -> Span:
    word = _outcome_word(gate)
    return Strong(word) if word == "failed" else word


def _outcome_word(gate: GateOutcome) -> str:
    return "warns" if gate.severity == "warning" and gate.outcome == "failed" else gate.outcome


# What is folded.


def _folded(result: Result, rows: int, width: int, shown: Sequence[tuple[str, Sequence[Block]]]) -> str:
    causes, small = words.listed(result)
    figure = waterfall.build(result)
    folds: list[tuple[str, Sequence[Block]]] = []
    if trust := _trust(result):
        folds.append((say("how_sure"), [Items(trust)]))
    if more := causes[NAMED:]:
        folds.append((units.counted(len(more), "more cause"), [findings.smaller(result, more, rows)]))
    if result.accounting.delta:
        folds.append((say("fall_title", step=figure.of_what), [Listing(waterfall.text_figure(figure))]))
    count = units.counted(len(small), "small cause")
    note = said_by(result.tool, "in_the_page_small" if small else "in_the_page", causes=count)
    return document.markdown(folds=[*folds, *shown], note=note, most=rows, width=width)


def _trust(result: Result) -> list[list[Span]]:
    """What was not said at once: how sure, in how many runs, what differs between the captures, what was not compared."""
    said_above = [*_share(result), *_differs(result)]
    said = [
        *(f"{phrases.REMARK}: {text}" for text in phrases.remarks(result)),
        *(text for text in workloads.left_out(result)[:LISTED] if text not in said_above),
        *(f"{status}: {text}" for status, text in words.problems(result)[:LISTED] if text not in said_above),
        *(shorten(note.message, TEXT) for note in result.warnings[:LISTED]),
    ]
    items: list[list[Span]] = [[one] for one in said if one]
    if not items:
        return []
    for side in SIDES:
        if runs := words.run_names(result, side):
            listed = [span for run in runs for span in (", ", Code(run))][1:]
            items.append([f"Runs of the {side}: ", *listed])
    return items


# Several results in one pull-request comment: a sentence for each, the worst first, and each one's own comment folded below.


MOST = 60_000  # bytes; a forge takes 65,536 characters
_WORST: tuple[Verdict, ...] = (
    "regressed", "likely_regressed", "not_comparable", "inconclusive", "no_change", "likely_improved", "improved",
)  # fmt: skip
_OUTCOMES: tuple[Outcome, ...] = ("failed", "inconclusive", "waived", "passed")


def render_many(
    results: Mapping[str, Result],
    top: int = 10,
    key: str = "",
    link: str = "",
    shown: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the comment on results by name; `top` as for one result, `link` the address where their reports can be read.

    shown: name of a result -> address of its waterfall as PNG, checked by `report_link`.
    """
    ordered = sorted(results.items(), key=lambda one: _worst_first(one[1]))
    found = Counter(result.verdict for _, result in ordered)
    verdicts = ", ".join(f"{found[one]} {words.VERDICTS[one].word.lower()}" for one in _WORST if found[one])
    outcomes = Counter(one.outcome for _, result in ordered for one in _errors(result))
    gates = ", ".join(f"{outcomes[one]} {one}" for one in _OUTCOMES if outcomes[one])
    slots = {"benchmarks": units.counted(len(ordered), "benchmark"), "verdicts": verdicts, "gates": gates}
    text = say("benchmarks_gates" if gates else "benchmarks", **slots) + "\n\n"
    text += "\n".join(_item(name, result) for name, result in ordered[:PAGE])
    if len(ordered) > PAGE:
        text += f"\n- {len(ordered) - PAGE} more, none of them worse, are in their JSON"
    if link:
        text += f"\n\n[HTML reports]({link})"
    return f"{text}{_comments(ordered[:PAGE], top, MOST - length(text), shown)}\n\n{marker(key)}\n"


def _worst_first(result: Result) -> tuple[int, int, float]:
    """Gates before verdicts: they decide the exit status."""
    worst = min((_OUTCOMES.index(one.outcome) for one in _errors(result)), default=len(_OUTCOMES))
    base = result.step.baseline_ns
    return worst, _WORST.index(result.verdict), -(result.step.delta_ns / base if base else 0.0)


def _errors(result: Result) -> list[GateOutcome]:
    return [one for one in result.gates.outcomes if one.severity == "error"] if result.gates else []


def _item(name: str, result: Result) -> str:
    verdict, gates = words.VERDICTS[result.verdict], _gates_named(result)
    said = markdown_prose(result.headline.text or verdict.word, TEXT)
    text = f"- {verdict.sign} **{markdown_code(name, 60)}**: {said}"
    return f"{text} Gates: {gates}." if gates else text


def _gates_named(result: Result) -> str:
    """Gates that did not pass by what they are of, and the number of those that did."""
    outcomes = result.gates.outcomes if result.gates else []
    others = [
        f"{_outcome_word(one)} {markdown_code(one.text, 60)}" for one in outcomes if one.outcome != "passed"
    ]
    passed = sum(one.outcome == "passed" for one in outcomes)
    return ", ".join([*others[:LISTED], *([f"{passed} passed"] if passed else [])])


def _comments(ordered: Sequence[tuple[str, Result]], top: int, room: int, shown: Mapping[str, str]) -> str:
    """Each result's own comment; where they do not all fit, what is read at once of each, and then of the worst only."""
    room -= 200
    heads, whole = "", ""
    for number, (name, result) in enumerate(ordered):
        head, fold = parts(result, top, picture=shown.get(name, ""))
        more = _fold(name, head)
        if length(heads + more) > room:
            return f"{heads}\n\nTruncated: {len(ordered) - number} more are in their HTML reports and JSON."
        heads += more
        whole += _fold(name, f"{head}\n\n{fold}")
    return whole if length(whole) <= room else heads


def _fold(name: str, text: str) -> str:
    return f"\n\n<details><summary><code>{html.escape(shorten(visible(name), 60))}</code></summary>\n\n{text}\n\n</details>"
