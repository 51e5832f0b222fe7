from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html.parser import HTMLParser

import msgspec
import pytest

from tests.report import sample
from tracediff import model as m
from tracediff.model import (
    FindingPart,
    Headline,
    Kernels,
    OffCpuRow,
    OsCallRow,
    PhaseDelta,
    Result,
    System,
    Where,
)
from tracediff.report import findings, sections, units, words
from tracediff.report.html import render_html
from tracediff.report.page import typography

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(900),
}


@cache
def page_of(name: str) -> str:
    return sample.page() if name == "full" else render_html(RESULTS[name])


# All elements that the templates and the figure use; a name in a trace can add none.
_TAGS = (
    "html head meta title style body a header div span small b section h1 h2 h3 p dl dt dd ul li ol figure "
    "figcaption data nav main article details summary table caption thead tbody tfoot tr th td code pre i "
    "footer textarea script svg g path text circle line rect desc"
)
TAGS = frozenset(_TAGS.split())
VOID = {"meta"}


class Page(HTMLParser):
    """What a browser would see: elements, attributes, text by element, and the tables' raw values."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.values: dict[str, list[float]] = {}
        self.table = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        given = dict(attrs)
        if tag == "table":
            self.table = given.get("data-name") or ""
        if tag == "data" and given.get("value"):
            self.values.setdefault(self.table, []).append(float(given["value"] or 0))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        if tag == "table":
            self.table = ""

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text.append(data)


parsed_once = cache(Page)


def section(page: str, name: str) -> str:
    """The markup of a section, whose parts are no sections."""
    return page[page.index(f'<section id="{name}">') :].split("</section>")[0]


@pytest.fixture(params=RESULTS, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return page_of(request.param)


def test_every_element_is_ours_and_closed(page: str) -> None:
    parsed = parsed_once(page)
    assert set(parsed.tags) <= TAGS
    assert parsed.open == []
    assert parsed.tags.count("script") == 1
    assert parsed.tags.count("style") == 1


def test_nothing_is_loaded_and_nothing_runs_but_our_script(page: str) -> None:
    parsed = parsed_once(page)
    for tag, key, value in parsed.attributes:
        assert not key.startswith("on"), (tag, key)
        assert key not in ("src", "srcset", "action", "formaction", "background", "poster", "xlink:href"), (
            tag,
            key,
        )
        if key == "href":
            assert value and value.startswith("#"), value
        if key == "style":
            assert "url(" not in (value or "")
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policies = [
        value for _, key, value in parsed.attributes if key == "content" and "default-src" in (value or "")
    ]
    assert len(policies) == 1
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[0].encode()).digest()).decode()
    assert policies[0] == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert len(parsed.scripts) == 1


def test_hostile_names_are_text() -> None:
    text = "".join(parsed_once(page_of("full")).text)
    for name in sample.HOSTILE:
        assert name.replace("\x1b", "\\x1b") in text, name
    assert "\x1b" not in page_of("full")
    assert "49" not in re.findall(
        r"\{\{7\*7\}\}|(?<![\d.,])49(?![\d.,%])", page_of("full").split("<main>")[1][:2_000]
    )


def test_microseconds_are_spelt_in_one_way(page: str) -> None:
    """Descriptions of pictures, which are read aloud, too; not the comment that a button copies, nor names and SQL."""
    text = re.sub(r"<(script|style|textarea|code|pre)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.findall(r"\d us\b", text) and "\u00b5s" in text


def test_links_lead_somewhere(page: str) -> None:
    parsed = parsed_once(page)
    ids = [value for _, key, value in parsed.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    for _, key, value in parsed.attributes:
        if key == "href":
            assert (value or "")[1:] in ids, value


def test_the_numbers_are_the_results() -> None:
    result = RESULTS["full"]
    values = parsed_once(page_of("full")).values
    for row in result.kernels:
        sides = [side for side in (row.baseline, row.candidate) if side]
        table = "kernels others" if row.level == "within_noise" else "kernels"
        assert {row.delta_ns, *(s.ns_per_step for s in sides), *(s.count_per_step for s in sides)} <= set(
            values[table]
        )
    for gap in result.gaps:
        assert gap.delta_ns in values["gaps"]
    accounting = result.accounting
    for numbers in (accounting.baseline, accounting.candidate, accounting.delta, accounting.hidden_candidate):
        assert set(numbers.values()) <= set(values["accounting"])
    assert {result.step.baseline_ns, result.step.delta_ns} <= set(values["phases"])
    assert [f.delta_ns for f in result.findings[:4]] == values[""][:4]
    assert result.findings[4].level == "within_noise"  # no cause of the first screen


def test_the_first_screen_answers_the_question() -> None:
    text = " ".join(" ".join(parsed_once(page_of("full")).text).split())
    first = text[: text.index("What is counted or more than noise comes first")]
    for said in (
        "Slower with pr <script>alert(1)</script>: generation step 1,035 → 1,140 µs (+106 µs, +10.2 %).",
        "generation, typical Slower 1,035 1,140 +106 +10.2 % +87.8 to +124",
        "generation, mean 1,039 1,168 +129",
        "5 + 5",
        "confirmed , 90 % of the change",
    ):
        assert said in first, said
    assert "Host work in _schedule" in first


def test_what_was_not_captured_is_said_and_never_zero() -> None:
    page = page_of("minimal")
    gil_section = section(page, "gil")
    assert "GIL: not captured on either side. Capture with -t python-gil to see it." in gil_section
    gil = next(row for row in section(page, "accounting").split("<tr>") if "GIL wait" in row)
    assert gil.count("not captured") == 2
    assert "<data" not in gil
    for absent in ('id="kernels"', 'id="ranks"', 'id="kpi"', 'id="threads"'):
        assert absent not in page


def test_tables_are_bounded_and_say_so() -> None:
    page = page_of("large")
    kernels = section(page, "kernels")
    assert kernels.count("<tr data-level=") == 80
    more = "rows. {} more are in the JSON, under <code>{}</code>, and in the files of <code>--tables</code>."
    assert f"The first 80 of 900 {more.format(820, 'kernels')}" in kernels
    assert f"The first 40 of 900 {more.format(860, 'gaps')}" in section(page, "gaps")
    assert len(page) < 1_000_000


@pytest.mark.slow
def test_rows_within_noise_are_folded_and_cut() -> None:
    whole = RESULTS["large"]
    noise = [msgspec.structs.replace(row, level="within_noise") for row in whole.kernels[:50]]
    page = render_html(msgspec.structs.replace(whole, kernels=[*noise, *whole.kernels[50:53]]))
    shown, folded = section(page, "kernels").split('<details class="numbers">')
    assert (shown.count("<tr data-level="), folded.count("<tr data-level=")) == (3, 40)
    assert "50 kernels not shown to have changed" in folded and "The first 40 of 50 rows." in folded


def test_kernels_of_a_typical_step_say_what_they_leave_out_and_one_count_of_them() -> None:
    """50 -> 60 us in the one row of 70 -> 90 us GPU time: compute 52 -> 62, exposed copies 18 -> 28."""
    whole = sample.full()
    one = m.KernelTypical("generation", 50e3, 60e3, 10e3, 9e3, 11e3, "likely", q_value=0.01)
    busy = [{"compute": 52e3, "memcpy": 18e3, "host_work": 9e3}, {"compute": 62e3, "memcpy": 28e3}]
    accounting = m.Accounting(*busy, {}, 0)
    phases = [msgspec.structs.replace(phase, accounting=accounting) for phase in whole.phases]
    kernels = [msgspec.structs.replace(whole.kernels[0], phases=[one]), *whole.kernels[1:]]
    page = render_html(msgspec.structs.replace(whole, phases=phases, kernels=kernels))
    said = section(page, "kernels")
    assert "1 of 1 rows beyond noise" in page
    left = "Kernels with less than 0.1 % of the step each are only in the JSON: together"
    assert typography(f"{left} 20.0 -> 30.0 us of 70.0 -> 90.0 us GPU time.") in said


def test_the_longest_gaps_of_both_sides_are_in_one_order() -> None:
    whole = sample.full()
    one = whole.worst_gaps[0]
    gaps = [
        msgspec.structs.replace(one, side=side, duration_ns=ns)
        for side, ns in (("baseline", 5), ("baseline", 3), ("candidate", 4), ("candidate", 2))
    ]
    page = render_html(msgspec.structs.replace(whole, worst_gaps=gaps))
    assert [value for value in Page(page).values["worst gaps"] if value < 6] == [5, 4, 3, 2]


def test_without_a_change_there_is_no_share() -> None:
    whole = sample.full()
    page = render_html(msgspec.structs.replace(whole, verdict="no_change"))
    header = page[: page.index("</header>")]
    assert "of the change" not in header and "Host work in _schedule" in header


@pytest.mark.parametrize("name", ["full", pytest.param("large", marks=pytest.mark.slow)])
def test_the_same_result_gives_the_same_bytes(name: str) -> None:
    assert render_html(RESULTS[name]) == page_of(name)


@pytest.mark.parametrize(
    "verdict",
    [
        "improved",
        "regressed",
        "likely_improved",
        "likely_regressed",
        "no_change",
        "inconclusive",
        "not_comparable",
    ],
)
def test_every_verdict_has_a_word(verdict: str) -> None:
    result = msgspec.structs.replace(sample.minimal(), headline=Headline("", "", 0.0, "within_noise", ""))
    page = render_html(msgspec.convert(msgspec.to_builtins(result) | {"verdict": verdict}, Result))
    assert f"</span> {words.VERDICTS[verdict].word}" in page


@pytest.mark.parametrize(
    ("plain", "set_"),
    [
        ("-7.2 us (-0.7 %)", "\u22127.2\u00a0µs (\u22120.7\u202f%)"),
        ("-<0.1", "\u2212<0.1"),
        ("a -> b, 1.18 -> 2.64 us each", "a →\u00a0b, 1.18 →\u00a02.64\u00a0µs each"),
        ("sm90-64x16 us-west --flag pr-4711", "sm90-64x16 us-west --flag pr-4711"),
    ],
)
def test_typography(plain: str, set_: str) -> None:
    assert typography(plain) == set_


OS_CALL = OsCallRow("poll", "executor", 1.0, 1e3, 1.0, 2e3)
OFF_CPU = OffCpuRow("executor", 1.0, 1e3, 1.0, 2e3)


@pytest.mark.parametrize(
    ("system", "link"),
    [
        (None, None),
        pytest.param(System(os_calls=[OS_CALL]), "OS calls", marks=pytest.mark.slow),
        pytest.param(System(off_cpu=[OFF_CPU]), "Scheduling", marks=pytest.mark.slow),
        (System(os_calls=[OS_CALL], off_cpu=[OFF_CPU]), "System"),
    ],
)
def test_the_menu_names_what_the_system_section_holds(system: System | None, link: str | None) -> None:
    page = render_html(msgspec.structs.replace(sample.full(), system=system))
    assert re.findall(r'<a href="#system">(.*?)</a>', page) == ([] if link is None else [link])


def test_raw_means_are_said_to_be_raw() -> None:
    whole = sample.full()
    mixed = msgspec.structs.replace(whole.findings[0], cause="batch_mix")
    page = render_html(msgspec.structs.replace(whole, findings=[mixed]))
    assert page.count("<span>means as recorded ") == 1 and "<span>means as recorded " not in render_html(
        whole
    )


def test_parts_follow_their_cause_and_what_follows_from_them_is_apart() -> None:
    whole = sample.full()
    first = whole.findings[0]
    inside = FindingPart(
        "kernel_time",
        Where(kernels=Kernels(("silu",))),
        20_800.0,
        20_000.0,
        21_600.0,
        "confirmed",
        match="exact",
    )
    after = FindingPart(
        "launch_api", Where(range=sample.SCRIPT), -4_000.0, -5_000.0, -3_000.0, "likely", follows=True
    )
    elsewhere = PhaseDelta("mixed", "tail", 7_000.0, 1_000.0, 15_000.0, "likely")
    finding = msgspec.structs.replace(first, parts=[after, inside], phases=[elsewhere])
    page = render_html(msgspec.structs.replace(whole, findings=[finding]))
    text = " ".join("".join(Page(page).text).split())
    assert "elsewhere: +7.0" in text and "in rare steps (likely)" in text
    parts = text[text.index("Parts of cause 1") :]
    order = ["silu", "+20.8", sample.SCRIPT, "follows from the others", "\u22124.0"]
    places = [parts.index(word) for word in order]
    assert places == sorted(places)


def test_parts_are_as_sure_as_their_cause_and_only_launches_are_counted() -> None:
    """Of a sure cause one kernel and 150 gaps are each within noise alone: the cause is tested as one, and gaps are no launches."""
    whole = sample.full()
    rows = [
        FindingPart("kernel_time", Where(kernels=Kernels(("silu",))), -9_000.0, -9_500.0, -8_500.0, "within_noise",
                    count_baseline=8.0, count_candidate=7.0),
        FindingPart("graph_internal", Where(range="step"), -5_220.0, -5_910.0, -4_530.0, "within_noise", follows=True,
                    count_baseline=150.0, count_candidate=142.0),
        FindingPart("launch_api", Where(range="step"), 1_000.0, -2_000.0, 4_000.0, "likely", follows=True),
    ]  # fmt: skip
    finding = msgspec.structs.replace(whole.findings[0], level="confirmed", parts=rows)
    section = findings.cause(whole, finding, units.Scale("us", 1_000, 2))
    (made,) = [one for one in section.blocks if getattr(one, "name", "") == "parts"]
    assert [[cell.text for cell in row.cells][1:] for row in made.rows] == [
        ["-9.000", "-9.500 to -8.500", "8", "7"],
        ["-5.220", "-5.910 to -4.530", "", ""],
        ["+1.000", "-2.000 to +4.000", "", ""],
    ]
    assert [row.cells[1].tone for row in made.rows] == ["faster", "faster", "noise"]


def test_all_step_times_of_a_table_are_in_the_unit_of_the_page() -> None:
    """Means of 1,035 us and a p99 of 117 ms: one unit, three digits."""
    whole = sample.full()
    one = whole.phases[1]
    late = msgspec.structs.replace(one.candidate, p99_ns=117_171_679.0)
    result = msgspec.structs.replace(whole, phases=[msgspec.structs.replace(one, candidate=late)])
    section = next(one for one in sections.sections(result) if one.id == "steps")
    made = section.blocks[1]
    assert {head.unit for head in made.heads[3:]} == {"us"}
    assert made.rows[0].cells[-1].text == "117,172"
