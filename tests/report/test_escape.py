from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.report import sample
from tracediff.companions.model import Kpi, KpiRow
from tracediff.model import Result
from tracediff.report import escape, names

NASTY = (
    *sample.HOSTILE,
    "a\\|b", "``two``", "`", "\\", "a\nb\n# c", "- item", "1. item", "=====", "<!-- x", "&lt;b&gt;", "&#124;",
    "![i](http://x/y.png)", "http://x.example", "www.x.example", "#123", "GH-12", "0123456789abcdef", "$x$",
    "~~s~~", "*b* _i_ __c__", "]]", "|||", "<https://a.b>", "| - |", "---", "\u202egnp.exe", "\ud800", "",
)  # fmt: skip
# Text that Markdown may mean something by, in any mixture.
harmful = given(
    text=st.sampled_from(NASTY)
    | st.lists(st.sampled_from([*NASTY, *"`|*_~<>[]()#@!&;-+.:/\\ \n\t1a"]), max_size=8).map("".join)
    | st.text()
)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def inline_tokens(text: str) -> list[Token]:
    return [child for token in MARKDOWN.parse(text) for child in token.children or []]


def block_types(text: str) -> list[str]:
    return [token.type for token in MARKDOWN.parse(text)]


@harmful
def test_prose_is_one_paragraph_of_plain_text(text: str) -> None:
    out = escape.markdown_prose(text)
    if not out:
        assert not text.strip()
        return
    assert block_types(out) == ["paragraph_open", "inline", "paragraph_close"]
    assert {token.type for token in inline_tokens(out)} <= {"text", "text_special", "code_inline"}
    shown = "".join(token.content for token in inline_tokens(out))
    assert shown == escape.visible(" ".join(text.split()))


@harmful
def test_prose_breaks_mentions_references_and_links(text: str) -> None:
    out = escape.markdown_prose(text)
    prose = "".join(" " if token.type == "code_inline" else token.content for token in inline_tokens(out))
    for live in ("@everyone", "#123", "http:", "https:", "www."):
        assert live not in prose
    assert not re.search(r"\bGH-12|\b0123456\b", prose), "these are linked as words of their own"


@pytest.mark.parametrize(
    ("text", "out"),
    [
        (r"choose it by --step-regex '^step (\d+)$' here", r"choose it by `--step-regex '^step (\d+)$'` here"),
        ("host_work@_schedule changed", "`host_work@_schedule` changed"),
        ("by 986fb2dfc9, see https://a.example/x_y?z=1#top.", "by `986fb2dfc9`, see `https://a.example/x_y?z=1#top`."),
        ("R&D: 5 % of 3 steps", "`R&D`: 5 % of 3 steps"),
    ],
)  # fmt: skip
def test_what_is_pasted_is_a_code_span_with_every_character(text: str, out: str) -> None:
    assert escape.markdown_prose(text) == out


@harmful
def test_a_cell_is_one_code_span(text: str) -> None:
    table = f"| a | b |\n|-|-|\n| {escape.markdown_cell(text)} | 1 |\n"
    tokens = MARKDOWN.parse(table)
    cells = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "td_open"]
    assert len(cells) == 2, "a pipe in a name must not make a cell"
    children = cells[0].children or []
    assert [child.type for child in children] == ["code_inline"]
    # A pipe after a backslash is shown as a broken bar, and a broken bar of the name as itself: one to a reader.
    shown, told = (
        value.replace("\u00a6", "|").strip()
        for value in (children[0].content, escape.visible(" ".join(text.split())))
    )
    assert shown == told


@harmful
def test_code_is_one_code_span(text: str) -> None:
    tokens = inline_tokens(f"at {escape.markdown_code(text)} end")
    assert [token.type for token in tokens] == ["text", "code_inline", "text"]
    assert tokens[1].content.strip() == escape.visible(" ".join(text.split())).strip()


@pytest.mark.parametrize("text", ["```\nout", "````", "plain", "`"])
def test_a_block_cannot_be_closed_from_inside(text: str) -> None:
    tokens = MARKDOWN.parse(escape.markdown_block(text))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content == text + "\n"


def test_neutral_leaves_no_control_character_and_keeps_the_numbers() -> None:
    before = sample.full()
    after = escape.neutral(before)
    text = msgspec.json.encode(after).decode()
    assert "\\u001b" not in text
    assert "\\\\x1b[31mred" in text
    assert "\n" in after.findings[0].evidence.query
    assert [row.delta_ns for row in after.kernels] == [row.delta_ns for row in before.kernels]
    assert after.step == before.step
    assert escape.neutral(after) == after


def test_one_harmful_text_is_enough_and_a_section_of_a_companion_keeps_its_kind() -> None:
    kpi = Kpi("\x1b", "b.json", [KpiRow("ttft_mean_ms", "ms", "lower", 1.0, 2.0, 1.0)])
    fields = {
        name: getattr(sample.minimal(), name) for name in Result.__struct_fields__
    }  # those of the core alone
    report = Result(**fields | {"verdict_reason": "##vso[x]", "kpi": kpi})
    after = escape.neutral(report)
    assert after.verdict_reason == "# #vso[x]"
    assert after.kpi == msgspec.structs.replace(kpi, source_baseline="\\x1b")


def test_shorten_keeps_both_ends() -> None:
    assert escape.shorten("abcdefghij", 10) == "abcdefghij"
    assert escape.shorten("abcdefghijkl", 10) == "abcdef\u2026jkl"
    assert len(escape.shorten("x" * 999, 40)) == 40


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"),
        (sample.SCRIPT, sample.SCRIPT),
        (
            "void at::native::vectorized_elementwise_kernel<(int)8, at::native::BinaryFunctor<c10::BFloat16, "
            "at::native::binary_internal::MulFunctor<float>>, std::array<char *, 3>>(int, T2, T3)",
            "vectorized_elementwise_kernel<BinaryFunctor, BFloat16, MulFunctor>",
        ),
        ("void at::native::<unnamed>::layer_norm_kernel<float>(int)", "layer_norm_kernel<float>"),
        ("void <x>::<y>", "void <x>::<y>"),
        ("void f(int)", "void f(int)"),
    ],
)
def test_kernel_names_are_shortened_without_losing_what_tells_them_apart(name: str, short: str) -> None:
    assert names.short(name) == short
