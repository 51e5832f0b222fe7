from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report import sample
from tests.report.golden import check
from tracediff.model import GateOutcome, Gates, Headline, Note, Result
from tracediff.report.markdown import LIMIT, MARKER, OPEN, length, marker, render_markdown, report_link

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(),
}
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
# Tables, strikethrough and bare addresses as links, as GitHub renders a comment; a newline is a line break there.
GFM = MarkdownIt("gfm-like", {"html": True, "breaks": True})
assert GFM.linkify is not None
GFM.linkify.tlds(["com"])  # no forge links a bare name such as 0.al
NASTY = [
    "a|b", "`", "``x", "<img src=x onerror=alert(1)>", "</details>", "<!-- tracediff -->", "@everyone", "@octocat/team",
    "#123", "GH-12", "owner/repo#7", "https://evil.example/x", "www.evil.example", "mail@evil.example", "**bold**",
    "_x_", "~~gone~~", "![i](https://evil.example/i.png)", "[t]: https://evil.example", "line\nfeed\r\n# heading", "\u202eevil",
    "\u2066x\u2069", "\ufeff", "a\x00b", "\x1b[31mred", "\U0001f600" * 40, "k" * 10_000, "|" * 500, "`" * 300, "\\", "\\|",
    "- item", "1. item", "> quote", "    code", "$x^2$", "&lt;", "{{7*7}}", "x\u2028y", "=HYPERLINK(1)", "::error::x", "/merge", "!5", "%1", "<b",
]  # fmt: skip


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_the_comment_begins_with_the_verdict_and_ends_with_its_marker(result: Result) -> None:
    lines = render_markdown(result).splitlines()
    assert lines[-1] == MARKER
    verdict = {
        "regressed": "**▲ Slower with ",
        "likely_regressed": "**△ Slower with ",
        "inconclusive": "**? Unclear with ",
    }
    assert lines[0].startswith(verdict[result.verdict]) and lines[0].endswith("**")


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_what_is_read_at_once_is_short(result: Result) -> None:
    text = render_markdown(result)
    assert length(text.split("<details>")[0]) <= OPEN and length(text) <= LIMIT


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("top", [1, 10, 100_000])
def test_nothing_of_a_name_is_live(result: Result, top: int) -> None:
    tokens = MARKDOWN.parse(render_markdown(result, top))
    html = []
    for token in tokens:
        if token.type == "html_block":
            html.append(token.content.strip())
        for child in token.children or []:
            assert child.type not in ("link_open", "image", "s_open", "em_open"), child
            assert child.type != "html_inline", child.content
            if child.type == "text":
                assert "@everyone" not in child.content
                assert "https:" not in child.content
    allowed = re.compile(r"<!-- tracediff -->|<details><summary>[\w ,():+]+</summary>|</details>")
    assert all(allowed.fullmatch(block) for block in html), html
    assert sum(block == "</details>" for block in html) == sum(
        block.startswith("<details>") for block in html
    )


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_every_row_has_as_many_cells_as_its_header(result: Result) -> None:
    for line_set in re.split(r"\n\n", render_markdown(result)):
        rows = [line for line in line_set.splitlines() if line.startswith("|")]
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert len(cells) <= 1, rows


def test_names_are_shown_literally() -> None:
    codes = [
        child.content
        for token in MARKDOWN.parse(render_markdown(sample.full()))
        for child in token.children or []
        if child.type == "code_inline"
    ]
    assert "pr <script>alert(1)</script>" in codes
    assert f"{sample.TICK} + {sample.MENTION} -> {sample.JINJA}" in codes
    assert f"{sample.CDATA} + {sample.MARKUP}" in codes


def test_the_numbers_are_the_results() -> None:
    text = render_markdown(sample.full())
    for figure in (
        "| **generation, typical** | Slower | 1,035 -> 1,140 | +106 | +10.2 % | +87.8 to +124 |",
        "| generation, mean |  | 1,039 -> 1,168 | +129 | +12.4 % | +111 to +150 |",
        "+95.1 ± 7.6 us per generation step",
        "1,038.6 us",
        "1,167.9 us",
        "| 212.3 -> 211.0 | -1.3 |",
    ):
        assert figure in text


# Where each place has another of these names, and all places together have them all, three times in another order.
MIXED = [[*NASTY[first:], *NASTY[:first]] for first in (0, 15, 30)]


def hostile(*names: str) -> Result:
    """The full result with the names, in turn, in every place that a trace or a benchmark can name."""
    whole, given_names = sample.full(), cycle(names)

    def walk(value: object, key: str = "") -> object:
        if isinstance(value, list):
            return [walk(item, key) for item in value]
        if isinstance(value, dict):
            return {one: walk(item, one) for one, item in value.items()}
        named = {"label", "title", "next", "note", "range", "kernel", "thread", "names", "message", "baseline", "candidate",
                 "previous", "metric", "unit", "verdict_reason", "domain", "name", "phase", "power_note",
                 "what", "why", "counts", "api", "slug", "generation", "source_baseline", "holder_thread", "family"}  # fmt: skip
        return next(given_names) if isinstance(value, str) and key in named else value

    return msgspec.convert(walk(msgspec.to_builtins(whole)), type(whole))


@pytest.mark.parametrize("names", MIXED)
def test_nasty_names_change_nothing_but_text(names: list[str]) -> None:
    """The rendered comment has the same elements whatever the names, in GitHub's flavour."""
    gates = [
        GateOutcome(text=f"kernel:{name}:+1%", metric="kernel:x", outcome="failed", message=name)
        for name in names
    ]
    text = render_markdown(msgspec.structs.replace(hostile(*names), gates=Gates(gates)))
    assert length(text) < LIMIT
    allowed = {
        "p",
        "h2",
        "h3",
        "ul",
        "li",
        "strong",
        "code",
        "pre",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "br",
    }
    allowed |= {"em"} if "_Truncated: " in text else set()
    tokens = GFM.parse(text)
    for token in [*tokens, *(child for block in tokens for child in block.children or [])]:
        if token.type == "html_block":
            assert re.fullmatch(
                r"<!-- tracediff -->|<details><summary>[\w ,():+]+</summary>|</details>",
                token.content.strip(),
            )
        else:
            assert token.type not in ("html_inline", "link_open", "image"), token
            assert not token.tag or token.tag in allowed, token
    assert not re.search(r"^/\w", text, re.MULTILINE)  # a quick action of GitLab
    assert "\x00" not in text and "\u202e" not in text and "\x1b" not in text
    plain = "".join(
        child.content for token in tokens for child in token.children or [] if child.type == "text"
    )
    assert not re.search(r"(^|\W)@[a-z]", plain) and "#1" not in plain and "GH-1" not in plain
    assert text.count("<!-- tracediff -->") == 1 + sum(
        child.content.count("<!-- tracediff -->")
        for token in tokens for child in token.children or [] if child.type == "code_inline"
    )  # fmt: skip


def test_tables_keep_their_columns_whatever_the_names() -> None:
    for names in MIXED:
        html = GFM.render(render_markdown(hostile(*names)))
        for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
            counts = {
                len(re.findall(r"<t[hd]\b", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
            }
            assert len(counts) == 1, table[:400]


def test_gates_are_told_before_the_table() -> None:
    gates = [
        GateOutcome(text="step:+3%", metric="step", outcome="failed", message="step +12.4 % exceeds 3 %"),
        GateOutcome(text="kernel:a|b:+3%", metric="kernel:a|b", outcome="waived", message="until then"),
        GateOutcome(
            text="launches:+1", metric="launches", severity="warning", outcome="failed", message="two more"
        ),
        GateOutcome(text="gc:+1us", metric="gc", outcome="passed", message="gc +0.1 us"),
    ]
    text = render_markdown(msgspec.structs.replace(sample.full(), gates=Gates(gates)))
    assert text.index("exceeds") < text.index("| Phase")
    for line in (
        "- Gate `step:+3%` **failed**: step +12.4 % exceeds 3 %",
        "- Gate `kernel:a|b:+3%` waived: until then",
        "- Gate `launches:+1` warns: two more",
        "- Gates passed: `gc:+1us`",
    ):
        assert f"\n{line}\n" in text
    many = render_markdown(msgspec.structs.replace(sample.full(), gates=Gates(gates * 400)))
    # 1,200 that did not pass, 10 of them shown; 400 that did, 3 of them named
    assert "1,190 more gates did not pass" in many and "and 397 more" in many
    assert length(many.split("<details>")[0]) <= OPEN


def test_figures_of_a_benchmark_are_a_line_and_a_folded_table() -> None:
    whole = sample.full()
    assert whole.kpi is not None
    more = [
        msgspec.structs.replace(whole.kpi.rows[0], metric=f"more {number}", explained=None)
        for number in range(30)
    ]
    kpi = msgspec.structs.replace(whole.kpi, rows=[*more, *whole.kpi.rows])
    text = render_markdown(msgspec.structs.replace(whole, kpi=kpi))
    line = "Benchmark likely slower: ITL 1.04 -> 1.17 ms (12.5 % worse); output throughput 15,420 -> 13,720 tok/s (11.0 % worse). The step time explains 93 % of the change of ITL."
    assert text.index(line) < text.index("<details>") < text.index("<summary>Benchmark")
    assert "| output throughput, tok/s | 15,420 -> 13,720 | -1,700 | 11.0 % worse |" in text
    assert "| ITL mean, ms | 1.04 -> 1.17 | +0.13 | 12.5 % worse | 93 % |" in text
    assert (
        text.index("12.5 % worse | 93 %")
        < text.index("more 0")
        < text.index("23 more are in the JSON (`kpi.rows`)")
    )


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
@pytest.mark.slow
def test_any_name_is_text(name: str) -> None:
    tokens = GFM.parse(render_markdown(hostile(name)))
    for token in [*tokens, *(child for block in tokens for child in block.children or [])]:
        assert token.type not in ("html_inline", "link_open", "image", "s_open"), token
        if token.type == "html_block":
            assert re.fullmatch(
                r"<!-- tracediff -->|</?details>(<summary>[\w ,():+]+</summary>)?", token.content.strip()
            )


def test_a_key_keeps_comments_apart() -> None:
    assert render_markdown(sample.full(), key="h200").endswith("\n<!-- tracediff:h200 -->\n")
    for key in ("a b", "-->", "x" * 65, "a\n"):
        with pytest.raises(ValueError):
            marker(key)


def links(text: str) -> list[object]:
    return [c.attrs["href"] for t in GFM.parse(text) for c in t.children or [] if c.type == "link_open"]


def test_the_report_is_linked() -> None:
    address = report_link("https://ci.example/artifacts/1?x=2#y")
    assert links(render_markdown(sample.full(), link=address)) == [address]
    for bad in (
        "javascript:alert(1)",
        "https://a b",
        "https://a)](x",
        "https://a\nb",
        "ftp://a",
        "https://a<b>",
        "https://a|b",
        "https://ä.example",
    ):
        with pytest.raises(ValueError):
            report_link(bad)


def test_causes_are_linked_where_the_page_is_known_and_the_waterfall_is_shown_where_it_is() -> None:
    page = "https://ci.example/runs/7/report.html"
    picture = "https://ci.example/runs/7/drawn/waterfall.png"
    text = render_markdown(sample.full(), link=page, picture=picture)
    assert links(text) == [page, *(f"{page}#finding-{rank}" for rank in (1, 2, 3))]
    (image,) = [c for t in GFM.parse(text) for c in t.children or [] if c.type == "image"]
    assert (
        image.attrs["src"] == picture
        and image.content == "Where the time of a mean step (mean of 2 ranks) went"
    )
    assert text.index(picture) < text.index("<details>") and length(text.partition("<details>")[0]) <= OPEN


def test_an_interval_of_single_runs_says_what_it_leaves_out() -> None:
    reason = "A repeat would show -4.00 to +9.00 us (95 %): 1 + 1 runs; how much runs differ is assumed, not measured."
    assert f"\n\n{reason}\n\n" in render_markdown(
        msgspec.structs.replace(sample.minimal(), verdict_reason=reason)
    )
    assert (
        "Typical: mean without the shortest and the longest quarter of the steps; 5 + 5 runs"
        in render_markdown(sample.full())
    )


def test_three_causes_are_told_and_those_within_noise_are_counted() -> None:
    """Of seven causes two are within noise, of the other five three are told at once."""
    text = render_markdown(sample.full())
    shown, folded = text.split("<details>", 1)
    assert shown.count("\n- **") == 3 and "2 more causes" in folded
    assert (
        "**Host work in _schedule**: +95.1 ± 7.6 us per generation step; confirmed, in 5 of 5 runs; 90 % of the change; 31.4 -> 126.5 us; thread `executor`"
        in shown
    )
    assert "| 7 | 2 kernels became 1" in folded  # its own number, whatever stands before it
    assert "launch overhead (time in cudaGraphLaunch)" not in text and "2 small causes, timelines" in folded


def test_causes_have_their_advice_but_that_of_the_first_line() -> None:
    whole = sample.full()
    first = f"Next: {whole.findings[0].next.rstrip('.')}."  # a line of the first screen
    text = render_markdown(whole)
    assert first in text and text.count("Next: ") == 1
    assert text.count(first[6:-1]) == 1 and "; next: gc.freeze() after warm-up" in text
    none = render_markdown(msgspec.structs.replace(whole, verdict="no_change"))
    assert (
        none.count("Next: ") == none.count("Next: nothing to do.") == 1
        and "% of the change;" not in none
        and "; next: " not in none
        and "90 % of the change;" in text
    )


def test_sides_that_cannot_be_compared_get_no_delta() -> None:
    headline = Headline("Not comparable: other GPUs (gpu).", "", 0.0, "within_noise", "")
    result = msgspec.structs.replace(sample.full(), verdict="not_comparable", headline=headline)
    text = render_markdown(result)
    assert text.splitlines()[0] == "**× Not comparable: other GPUs (gpu).**"
    assert "| **generation, typical** | 1,035 -> 1,140 |\n" in text and "| +106" not in text


def test_what_was_not_compared_is_told_at_once_where_it_is_much_and_only_there() -> None:
    text = "Compared: 68 % of the baseline's and 100 % of the candidate's step time. Not compared: 32 % of"
    shown = render_markdown(sample.full())
    assert text in shown.split("<details>")[0] and shown.count("Not compared:") == 1


def test_emoji_count_in_bytes() -> None:
    assert length("a\U0001f600") == 5
    result = sample.large(400)
    kernels = [
        msgspec.structs.replace(
            row, baseline=msgspec.structs.replace(row.baseline, names=["\U0001f600" * 300 + str(number)]), candidate=None
        )
        for number, row in enumerate(result.kernels) if row.baseline
    ]  # fmt: skip
    assert length(render_markdown(msgspec.structs.replace(result, kernels=kernels), 100_000)) < LIMIT


@pytest.mark.parametrize("top", [1, 10, 100_000])
def test_a_huge_result_fits(top: int) -> None:
    text = render_markdown(sample.large(), top)
    assert length(text) < LIMIT and length(text.split("<details>")[0]) <= OPEN
    assert "in the HTML report and the JSON" in text


def test_huge_prose_is_cut_at_a_line() -> None:
    prose = "word @everyone <b> " * 5_000
    result = sample.full()
    findings = [msgspec.structs.replace(f, title=prose, note=prose, next=prose) for f in result.findings * 3]
    result = msgspec.structs.replace(
        result, findings=findings, verdict_reason=prose, warnings=[Note("many", prose)] * 50
    )
    text = render_markdown(result)
    assert length(text) < LIMIT
    assert text.endswith(f"hold everything._\n\n{MARKER}\n")
    assert text.count("<details>") == text.count("</details>")


def test_the_same_result_gives_the_same_text() -> None:
    assert render_markdown(sample.full()) == render_markdown(sample.full())


def test_golden() -> None:
    check(Path("comment.md"), render_markdown(sample.full()))
