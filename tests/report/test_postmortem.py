"""The post-mortem: what is written in it, what it may rule out, and that no name is anything but text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt

from tests.companions.latencies.test_render import report as latency_report
from tests.report import sample
from tests.report.browser import check_looks, launched
from tests.report.golden import check
from tests.report.test_markdown import MIXED, hostile
from tracediff.errors import TracediffError
from tracediff.model import GateOutcome, Gates, GateWaiver, Result
from tracediff.report import document
from tracediff.report.amounts import TEXT
from tracediff.report.blocks import Table
from tracediff.report.escape import neutral
from tracediff.report.postmortem import build, file_names, render_postmortem, ruled_out

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(400),
}
GFM = MarkdownIt("gfm-like", {"html": True})
SECTIONS = ["Summary", "Impact", "Timeline", "Cause", "Certainty", "Action", "What was ruled out, and why",
            "Root cause and lessons", "How it was measured, and its limits"]  # fmt: skip


def markdown(result: Result) -> str:
    """Without the pictures beside it."""
    return document.markdown(build(neutral(result), "incident"), width=TEXT)


def html(result: Result) -> str:
    return render_postmortem(result, Path("incident.html"))[Path("incident.html")].decode()


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_every_section_is_there_in_both_forms_and_in_its_order(result: Result) -> None:
    tokens = GFM.parse(markdown(result))
    heads = [
        tokens[i + 1].content
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]
    assert [one for one in heads if one in SECTIONS] == SECTIONS
    assert [one for one in re.findall(r"<h2>(.*?)</h2>", html(result)) if one in SECTIONS] == SECTIONS
    assert re.findall(r"<h1>(.*?)</h1>", html(result))[1:] == ["Evidence", "Appendix"]


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_the_first_page_is_short_and_no_table_is_wide(result: Result) -> None:
    text = markdown(result)
    assert len(text.split("# Evidence")[0].encode()) < 4_500
    rules = re.findall(r"^\|[-:|]+\|$", text, re.MULTILINE)
    assert max(rule.count("|") - 1 for rule in rules) <= 5


def test_small_causes_are_in_the_appendix() -> None:
    """The fourth and the last cause beyond noise are -6.8 % and -1.5 % of the change."""
    main, appendix = markdown(sample.full()).split("# Appendix")
    assert "## Cause 4: Gaps" in main and "Cause 7" not in main and "| 7 | 2 kernels became 1" in appendix
    assert "```sql" in appendix and "```sql" not in main


def test_the_first_page_advises_nothing_where_nothing_changed() -> None:
    result = msgspec.structs.replace(sample.full(), verdict="no_change")
    first = markdown(result).split("# Evidence")[0]
    assert "py-spy" not in first and "Gate it" not in first
    assert "py-spy" in markdown(sample.full()).split("# Evidence")[0]


def test_gates_and_latencies_have_sections_where_there_are_any() -> None:
    outcome = GateOutcome(
        text="gc:+1us", metric="gc", outcome="waived", message="gc +26.5 us, limit 1.0 us",
        waiver=GateWaiver("known", "2030-01-02"),
    )  # fmt: skip
    found = latency_report().latencies
    result = msgspec.structs.replace(sample.full(), gates=Gates([outcome]), latencies=found)
    heads = re.findall(r"<h2>(.*?)</h2>", html(result))
    assert heads.index("Latencies without a profiler") + 1 == heads.index("Gates")
    for text in (markdown(result), html(result).replace("\u00a0\u00b5s", " us")):
        assert "gc +26.5 us, limit 1.0 us" in text and "until 2030-01-02: known" in text and "waived" in text
        assert all(f"{label}" in text for label in ("mean", "median", "p90", "p99"))
        said = found.verdict_reason.partition("ms, ")[2].partition(" (")[0]
        assert said in text.replace("\u00a0ms", " ms")


def test_both_forms_say_the_same() -> None:
    """Word for word, but for pictures, signs of units, and what Markdown has to escape."""

    def words(text: str) -> list[str]:
        text = re.sub(r"<(svg|style|title|head)\b.*?</\1>", " ", text, flags=re.DOTALL)
        return re.findall(r"\w+", "".join(" " + one for one in Page(text).words).replace("\u00b5s", "us"))

    figure = sample.full()
    from_markdown = GFM.render(markdown(figure).replace("_to fill: ", "_"))
    from_markdown = re.sub(
        r"<pre><code class=\"language-text\">.*?</code></pre>", " ", from_markdown, flags=re.DOTALL
    )
    one, other = words(from_markdown), words(html(figure))
    boxes = from_markdown.count("[ ]")
    assert boxes == html(figure).count('type="checkbox"') == 5
    assert one == other


def test_the_numbers_are_the_results() -> None:
    text = markdown(sample.full())
    # 1,034.6 + 105.8 us
    assert "| **generation, typical** | 1,035 -> 1,140 | +106 | +10.2 % | +87.8 to +124 |" in text
    assert (
        "**Host work in _schedule**: +95.1 ± 7.6 us per generation step; confirmed, in 5 of 5 runs; 90 % of the change; "
        in text
    )


def test_impact_in_figures_of_the_benchmark() -> None:
    text = markdown(sample.full())
    assert (
        "Benchmark likely slower: ITL 1.04 -> 1.17 ms (12.5 % worse); output throughput 15,420 -> 13,720 tok/s (11.0 % worse). The step time explains 93 % of the change of ITL."
        in text
    )
    assert (
        "| output throughput, tok/s | 15,420 -> 13,720 | -1,700 | 11.0 % worse |"
        in text.split("# Evidence")[1]
    )
    assert "No benchmark was given" not in text and "No benchmark was given" in markdown(sample.minimal())


def test_evidence_of_a_cause() -> None:
    text = markdown(sample.full())
    assert (
        "| candidate | `pr_r0.sqlite` | `4811204113` | `4811299981` | longest _schedule, step 31, 95.87 us |"
        in text
    )
    assert "```sql\nFROM aligned_gap" in text
    assert (
        "| each run of the baseline, us | 30.9, 31.7, 31.0, 31.9, 31.5 |\n| each run of the candidate, us | 126.1, 127.3, 125.9, 126.8, 126.4 |"
        in text
    )
    assert "Launch calls took longer" not in text.split("## What was ruled out")[0]  # within noise: no cause


def test_the_size_on_one_rank_is_kept_apart_from_the_mean_over_ranks() -> None:
    """The first finding as if rank 1 of 2 alone had changed, by twice its part in the mean."""
    whole = sample.full()
    first = whole.findings[0]
    alone = msgspec.structs.replace(
        first, delta_ns=190_200.0, where=msgspec.structs.replace(first.where, rank=1)
    )
    result = msgspec.structs.replace(whole, findings=[alone, *whole.findings[1:]])
    for text in (markdown(result), html(result)):
        text = text.replace("\u00a0\u00b5s", " us").replace(" →\u00a0", " -> ")
        assert "mean over all ranks 31.4 -> 126.5 us" in text
        assert "mean over all ranks 4.0 us" not in text


def rows(result: Result) -> dict[str, list[str]]:
    table = next(one for one in ruled_out(result).blocks if isinstance(one, Table))
    return {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in table.rows}


def with_interval(low: float, high: float) -> Result:
    whole = sample.full()
    books = whole.accounting
    books = msgspec.structs.replace(
        books, ci_low=books.ci_low | {"launch_api": low}, ci_high=books.ci_high | {"launch_api": high}
    )
    return msgspec.structs.replace(whole, accounting=books)


def test_only_a_narrow_interval_rules_a_cause_out() -> None:
    """1 % of the baseline's step is 10.386 us."""
    assert rows(with_interval(-1_000, 10_300))["launch calls"][1:] == ["ruled out", "at most 1.0 % of a step"]
    assert rows(with_interval(-1_000, 10_500))["launch calls"][1] == "not ruled out"
    # 1,300 ns of 1,038,600 are 0.125 %: a bound is rounded up
    assert rows(with_interval(-1_300, 0))["launch calls"][2] == "at most 0.2 % of a step"
    assert rows(with_interval(-40_000, 3_000))["launch calls"][1:] == [
        "not ruled out",
        "noise may hide up to 3.9 % of a step",
    ]


def test_what_is_a_cause_in_rare_steps_is_not_ruled_out() -> None:
    """Its mean over all steps may be next to nothing."""
    calm = with_interval(-10, 10)
    assert rows(calm)["launch calls"][1] == "ruled out"
    (first, *others) = calm.findings
    rare = msgspec.structs.replace(first, cause="launch_api", level="confirmed")
    assert "launch calls" not in rows(msgspec.structs.replace(calm, findings=[rare, *others]))


def test_sides_that_cannot_be_compared_rule_nothing_out() -> None:
    text = markdown(msgspec.structs.replace(sample.full(), verdict="not_comparable"))
    section = text.split("## What was ruled out, and why")[1].split("## Root cause")[0]
    assert "Nothing: the sides are not comparable" in section and "| ruled out" not in section
    assert "| driver |" in section


def test_what_moved_and_what_was_not_captured_is_not_ruled_out() -> None:
    found = rows(sample.full())
    assert "Python GC" not in found and "host work" not in found and "GIL wait" not in found
    minimal = rows(sample.minimal())
    assert minimal["Python GC"][1:] == ["not ruled out", "none seen; TLLM_PROFILE_RECORD_GC=1 shows it"]
    assert minimal["GIL wait"][1:] == ["not ruled out", "not captured; -t python-gil shows it"]
    one_sided = rows(sample.one_sided())
    assert "GIL wait" not in one_sided or one_sided["GIL wait"][1] == "not ruled out"
    assert found["unattributed"][1:] == ["ruled out", "nothing is charged to it on either side"]


def test_kernels_that_may_have_changed_unseen_are_counted() -> None:
    """Of 8 rows 5 changed; of 318.9 us at most 1.4 us (0.4 %), of 96.9 us 1.0 us and of 28.0 us 1.3 us (4.6 %): each below 5 %."""
    assert "3 kernel rows changed by less than 5 % each." in markdown(sample.full())


def test_circumstances_stand_beside_each_other() -> None:
    text = markdown(sample.full())
    assert "| driver | warn | 570.86.10 | 570.124.06 | driver versions differ |" in text
    assert "| gpu | ok | 8 x NVIDIA H200 | 8 x NVIDIA H200 |" in text


@pytest.mark.parametrize("names", MIXED)
def test_nasty_names_change_nothing_but_text(names: list[str]) -> None:
    plain, nasty = hostile(*(f"plain{at}" for at in range(len(names)))), hostile(*names)
    tokens = GFM.parse(markdown(nasty))
    for token in [*tokens, *(child for block in tokens for child in block.children or [])]:
        assert token.type not in ("html_block", "html_inline", "link_open"), token
        assert token.type != "image" or token.attrs["src"] == "incident-waterfall.png"
    for table in re.findall(r"<table>.*?</table>", GFM.render(markdown(nasty)), re.DOTALL):
        assert (
            len({len(re.findall(r"<t[hd]\b", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)})
            == 1
        )
    one, other = Page(html(plain)), Page(html(nasty))
    assert one.tags == other.tags and one.attributes == other.attributes
    assert "\x00" not in html(nasty) and "\u202e" not in html(nasty)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = html(sample.full())
    assert "default-src 'none'" in page
    found = Page(page)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(found.tags)
    assert not {one for one in found.attributes if one.startswith("on") or one in ("src", "href", "action")}


def test_the_figure_beside_it_stands_alone() -> None:
    files = render_postmortem(sample.full(), Path("some where/in cident.md"))
    assert [str(path) for path in files] == [
        "some where/in cident.md", "some where/in cident-waterfall.svg", "some where/in cident-waterfall.png"
    ]  # fmt: skip
    text, drawn, painted = files.values()
    assert b"](in%20cident-waterfall.png)" in text
    assert drawn.startswith(b'<svg xmlns="http://www.w3.org/2000/svg"') and b"var(" not in drawn
    assert b'fill="white"' in drawn and painted.startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["incident", "incident.txt", "incident.pdf"])
def test_the_ending_says_the_form(name: str) -> None:
    with pytest.raises(TracediffError) as raised:
        file_names(Path(name))
    assert (raised.value.slug, raised.value.exit_code) == ("postmortem-format", 2)


def test_golden() -> None:
    files = render_postmortem(sample.full(), Path("incident.md"))
    check(Path("postmortem.md"), files[Path("incident.md")].decode())
    assert {path.name for path in files} == {
        "incident.md",
        "incident-waterfall.svg",
        "incident-waterfall.png",
    }


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "dark"), pytest.param(1280, "light", marks=pytest.mark.slow)]
)
def test_its_page_fits_a_phone_and_is_read_by_all(width: int, scheme: str, tmp_path: Path) -> None:
    page = tmp_path / "incident.html"
    page.write_text(html(sample.full()), encoding="utf-8")
    with launched() as browser:
        check_looks(browser, page, width, scheme)
