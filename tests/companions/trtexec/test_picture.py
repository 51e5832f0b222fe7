"""The picture of both engines: rows in their order, fused layers beside what they replaced, like blocks as one row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from fixtures.builders import trtexec as made
from tracediff.companions.model import Trtexec
from tracediff.companions.trtexec import picture, render
from tracediff.companions.trtexec.compare import compare_trtexec
from tracediff.companions.trtexec.read import Run, Side, read
from tracediff.report.pictures import style


@pytest.fixture(scope="module")
def engines() -> Trtexec:
    return compare_trtexec(*(read(str(made.ROOT / side)) for side in ("fp32", "fp16")))


def drawn(trtexec: Trtexec) -> list[picture.Bars]:
    return picture.rows(trtexec, [render.name(row).text(400) for row in trtexec.rows])


def blocks(names: Sequence[str], us: float, count: int = 1) -> Side:
    """A side of layers that take equally long; {} is the number of the block."""
    of = tuple((name.format(block), us * 1e3) for block in range(count) for name in names)
    return Side("side", (Run("run", profile=of),))


def test_rows_are_in_the_order_of_the_engines(engines: Trtexec) -> None:
    rows = drawn(engines)
    us = [[0, 8], [210, 120], [410, 300], [50, 45], [40, 40], [100, 90], [0, 15]]
    assert [[round(ns / 1e3) for ns in one.times] for one in rows] == us
    assert [one.match for one in rows] == ["added", "", "fused", "", "", "split", "added"]


def test_a_fused_layer_stands_beside_the_parts_that_it_replaced(engines: Trtexec) -> None:
    before, after = (
        [(layer.name, round(layer.ns), layer.kind) for layer in side] for side in drawn(engines)[2].sides
    )
    assert before == [("/conv2/Conv", 300_000, "FP32"), ("PWN(/add/Add, /relu2/Relu)", 110_000, "FP32")]
    assert after == [("/conv2/Conv + /add/Add + /relu2/Relu", 300_000, "FP16")]


def test_a_reformat_is_told_from_what_computes(engines: Trtexec) -> None:
    assert [[layer.kind for layer in side] for side in drawn(engines)[0].sides] == [[], ["reformat"]]


def test_layers_of_like_blocks_are_one_row() -> None:
    found = compare_trtexec(blocks(["/{}/mm", "/{}/act"], 10, 32), blocks(["/{}/mm", "/{}/act"], 6, 32))
    rows = [(one.name, [round(ns) for ns in one.times]) for one in drawn(found)]
    assert rows == [("32 x /*/mm", [320_000, 192_000]), ("32 x /*/act", [320_000, 192_000])]


def test_the_first_sentence_is_of_all_like_layers_where_they_changed_most() -> None:
    found = compare_trtexec(blocks(["/{}/mm"], 10, 32), blocks(["/{}/mm"], 6, 32))
    assert render.headline(found).endswith("The largest change is in 32 x /*/mm: 320 -> 192 us (-40.0 %).")


def test_a_block_in_another_precision_is_a_row_of_its_own() -> None:
    found = compare_trtexec(blocks(["/{}/mm"], 10, 3), blocks(["/{}/mm"], 6, 3))
    first = next(row for row in found.rows if row.candidate and row.candidate.names == ["/0/mm"])
    other = replace(first, candidate=replace(first.candidate, each_precision=["FP8"]))
    rows = drawn(replace(found, rows=[other if row is first else row for row in found.rows]))
    assert [one.name for one in rows] == ["/0/mm", "2 x /*/mm"]


def test_what_changed_least_is_one_row() -> None:
    names = [f"/{'x' * number}" for number in range(1, 41)]
    *_, last = rows = drawn(compare_trtexec(blocks(names, 10), blocks(names, 6)))
    assert len(rows) == picture.ROWS + 1
    assert (last.name, [round(ns) for ns in last.times]) == ("16 others", [160_000, 96_000])
    assert [layer.name for layer in last.sides[0]] == ["16 layers"]


def test_without_times_of_both_engines_nothing_is_drawn(engines: Trtexec) -> None:
    untimed = [
        replace(row, candidate=replace(row.candidate, times_ns=[None] * len(row.candidate.names)))
        for row in engines.rows
        if row.candidate
    ]
    assert drawn(replace(engines, rows=untimed)) == []


def test_names_are_escaped_and_two_pictures_are_the_same_bytes() -> None:
    rows = drawn(compare_trtexec(blocks(["<b>{}"], 10), blocks(["<b>{}"], 6)))
    one, other = (
        style.Later(partial(picture.draw, rows), style.WIDE, style.NARROW).__html__() for _ in range(2)
    )
    assert one == other
    assert "&lt;b&gt;0" in one
    assert "<b>" not in one
