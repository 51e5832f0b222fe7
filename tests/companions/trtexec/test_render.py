"""Reports of trtexec: what is in them, and that names of layers and tactics are harmless in each."""

from __future__ import annotations

import io
import json

import msgspec
import pytest
from rich.console import Console

from fixtures.builders import trtexec as made
from tests.companions.reports import NAMES, comes_back, markdown, names_are_harmless, terminal
from tests.report import sample
from tests.report.browser import check_looks, launched
from tracediff.companions import render as companion
from tracediff.companions.model import TrtexecReport
from tracediff.companions.trtexec import render as words
from tracediff.companions.trtexec.compare import compare_trtexec
from tracediff.companions.trtexec.read import read
from tracediff.model import Tool
from tracediff.report.html import render_html
from tracediff.report.markdown import render_markdown
from tracediff.report.terminal import render_terminal

FUSED = "2 layers became 1, 410 -> 300 us (-26.8 %)"


def report(one="fp32", other="fp16") -> TrtexecReport:
    found = compare_trtexec(*(read(str(made.ROOT / side)) for side in (one, other)))
    return TrtexecReport(tool=Tool("tracediff", "0"), trtexec=found)


def hostile(name: str, tmp_path) -> TrtexecReport:
    """Every text of the files is the name: layers, types, tactics, formats, and what the log says of the GPU."""
    texts = []
    for number, us in enumerate((10.0, 20.0)):
        info = made.layer(name, name or "x", (name, name), f"{name} {number}", "", (name,)) | {
            "Metadata": name
        }
        more = made.layer(f"{name}{number}", f"{name}{number}", (name, name))
        entries = [{"count": 1}, *({"name": one["Name"], "timeMs": us / 1e3} for one in (info, more))]
        line = " ".join(name.split())
        texts.append({
            "profile": json.dumps(entries), "layers": made.layers([info, more]),
            "log": made.log(made.SUMMARY["fp32"], throughput=1.0, device=f"{line}{number}",
                            options={"CUDA Graph": f"{line}{number}", "Batch": line}),
        })  # fmt: skip
    sides = [read(str(made.write(tmp_path / str(number), **text))) for number, text in enumerate(texts)]
    return TrtexecReport(tool=Tool("tracediff", "0"), trtexec=compare_trtexec(*sides))


def test_the_terminal():
    text = terminal(report())
    assert text.startswith("▽ Likely faster: GPU compute time 810 -> 610 us per query (-24.7 %)")
    assert FUSED in text and "LayerNorm: add, cast, mean" in text
    assert (
        "6 -> 8 layers, of them 0 -> 2 reformats, 1 fused, 1 split, 2 added, 2 with another tactic, 3 with another precision" in text
    )  # fmt: skip
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert "throughput 1,005.0 /s -> 1,257.9 /s +252.8 /s +25.2 % likely" in lines
    assert "GPU compute time, p90 820.0 us -> 620.0 us -200.0 us -24.4 %" in lines
    assert (
        "Convolution 2 510.0 -> 420.0 -90.0 -17.6 %" in lines and "FP16 0 -> 7 0 -> 610.0 +610.0 new" in lines
    )
    assert "5 more" in terminal(report(), top=2)


def test_of_a_side_and_itself_little_is_said():
    text = terminal(report("fp32", "fp32"))
    assert text.startswith("= Same: ") and "No layer changed beyond noise, and none is another." in text


def test_more_throughput_is_better():
    by_label = {one.label: one for one in words.means(report().trtexec)}
    assert by_label["throughput"].tone == "faster" and by_label["GPU compute time"].tone == "faster"
    back = {one.label: one for one in words.means(report("fp16", "fp32").trtexec)}
    assert back["throughput"].tone == "slower" and back["throughput"].difference == "-252.8 /s"


def test_markdown():
    text = companion.render_markdown(report())
    assert [token.type for token in markdown(text)].count("table_open") == 6
    assert "2 layers became 1, 410 -> 300 us" in text and "| GPU compute time | 810.0 us -> 610.0 us" in text


def test_the_page():
    page = companion.render_html(report())
    for text in (
        "Likely faster",
        "810 →\u00a0610\u00a0µs per query",
        "2 layers became 1, 410 →\u00a0300\u00a0µs",
        "GPU compute time, p90",
        "LayerNorm",
        "All layers",
        "sm80_xmma_fprop_f16f16_tilesize256x128",
        "Layers by precision",
    ):
        assert text in page, text


def test_the_json_comes_back():
    assert comes_back(report())


def test_in_the_report_of_a_comparison_it_is_a_section():
    full = msgspec.structs.replace(sample.full(), trtexec=report().trtexec)
    page, text = render_html(full), render_markdown(full)
    assert '<a href="#trtexec">' in page and 'id="trtexec-layers"' in page
    assert "<summary>TensorRT engines, by trtexec</summary>" in text and "2 layers became 1" in text
    out = io.StringIO()
    render_terminal(full, Console(file=out, width=160, color_system=None))
    assert FUSED in out.getvalue()
    without = sample.page(), render_markdown(sample.full())
    assert not any("trtexec" in one for one in without)


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_harmless(name, tmp_path):
    names_are_harmless(lambda one: hostile(one, tmp_path), name)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(companion.render_html(report()), encoding="utf-8")
    with launched() as browser:
        check_looks(browser, path, width, scheme)
