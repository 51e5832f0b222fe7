"""Time by layer of two sides: its rows, its sums, and that nothing of it is there without layers."""

from __future__ import annotations

import math

import polars as pl
import pytest

from tests.accounting.test_layers import eager, graph
from tracediff import api
from tracediff.comparison.layers import LayerCells
from tracediff.report import remarks
from tracediff.report.markdown import render_markdown


def written(trace, folder, name: str):
    return trace.write(folder / f"{name}.sqlite")


def test_time_by_layer_sums_to_the_kernels(tmp_path):
    """One layer more: 160 ns in it, and the rest as before."""
    result = api.compare(
        written(eager(), tmp_path, "a"), written(eager(layers=3), tmp_path, "b"), cache=False
    ).result
    layers = result.layers
    rows = {row.layer: (round(row.baseline_ns, 6), round(row.candidate_ns, 6)) for row in layers.rows}
    assert rows["layers.2.attn"] == (0.0, 100.0) and rows["layers.2.mlp"] == (0.0, 60.0)
    assert rows["layers.0.attn"] == rows["layers.1.attn"] == (100.0, 100.0)
    assert rows[""] == (50.0, 50.0)
    kinds = {row.layer: (round(row.baseline_ns, 6), round(row.candidate_ns, 6)) for row in layers.kinds}
    assert kinds == {"": (50.0, 50.0), "layers.*.attn": (200.0, 300.0), "layers.*.mlp": (120.0, 180.0)}
    total = math.fsum(row.delta_ns for row in result.kernels)
    assert total == pytest.approx(160.0)
    for part in (layers.rows, layers.kinds):
        assert math.fsum(row.delta_ns for row in part) == pytest.approx(total, abs=1e-9)
    assert {tuple(row.layers) for row in result.kernels} == {(), ("layers.*.attn",), ("layers.*.mlp",)}
    assert (
        layers.baseline.attributed == pytest.approx(320 / 370)
        and layers.baseline.by_range == layers.baseline.attributed
    )


def test_a_graph_made_in_the_recording_has_its_layers(tmp_path):
    sides = [written(graph(creation=True), tmp_path, name) for name in ("a", "b")]
    result = api.compare(*sides, cache=False).result
    assert [row.layer for row in result.layers.kinds] == ["", "layers.*.attn", "layers.*.mlp"]
    assert result.layers.candidate.of_graphs == result.layers.candidate.by_graph == pytest.approx(320 / 370)
    assert "86 % of the candidate's GPU time is in a known layer" in remarks.layers_known(result)[1]
    assert "Time by layer" in render_markdown(result)


def test_without_layers_there_is_no_word_of_them(tmp_path):
    result = api.compare(
        written(eager(labelled=False), tmp_path, "a"),
        written(graph(creation=False), tmp_path, "b"),
        cache=False,
    ).result
    assert result.layers is None
    assert all(row.layers == [] for row in result.kernels)
    assert "layer" not in render_markdown(result).lower()


def test_layers_of_one_side_alone_are_not_compared(tmp_path):
    result = api.compare(
        written(eager(), tmp_path, "a"), written(graph(creation=False), tmp_path, "b"), cache=False
    ).result
    assert result.layers is None
    assert "layers-one-side" in {note.slug for note in result.warnings}


def test_one_capture_alone_has_its_time_by_layer(tmp_path):
    shown = api.show(written(eager(), tmp_path, "a"), cache=False).result
    assert [(row.layer, round(row.baseline_ns, 6)) for row in shown.layers.kinds] == [
        ("layers.*.attn", 200.0), ("layers.*.mlp", 120.0), ("", 50.0),
    ]  # fmt: skip


def test_a_layer_that_is_mostly_communication_is_told_from_others() -> None:
    """Row 0 is an all-reduce of 80 us in each of two layers, row 1 a GEMM of 20 us in these and of 100 us in the head."""
    found = LayerCells(
        ["layers.0.mlp", "layers.1.mlp", "head"],
        pl.DataFrame(),
        {
            0: {"layers.0.mlp": 80.0, "layers.1.mlp": 80.0},
            1: {"layers.0.mlp": 20.0, "layers.1.mlp": 20.0, "head": 100.0},
        },
    )
    assert found.more_in([0]) == {"layers.0.mlp", "layers.1.mlp", "layers.*.mlp"}
    assert found.more_in([1]) == {"head"}
