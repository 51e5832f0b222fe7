"""The layer of each op, on traces that a reader can work out: eager, captured in a graph, in every schema."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.builders import SCHEMAS, TraceBuilder
from tests.tiny import label, reduced

STEPS = 4  # three of them are whole
SECONDS = {"attn": 100, "mlp": 60}  # ns of each kernel


def named(trace: TraceBuilder, at: int, layer: int, part: str) -> TraceBuilder:
    """A module's range around [at, at + 40)."""
    return trace.range(1, f"layers.{layer}.{part}", at, at + 40, domain=None)


def eager(
    *, labelled: bool = True, layers: int = 2, names=("attn", "mlp"), schema: str = "3.7"
) -> TraceBuilder:
    """Steps of 2000 ns: an embedding of 50 ns outside any module, then in each layer a kernel of 100 ns and one of 60 ns."""
    trace = TraceBuilder(schema).process(100).thread(100, 1)
    for step in range(STEPS):
        base, corr = 2000 * step, 100 * step
        trace.range(1, label(step), base, base + 1000)
        for number, (name, ns, layer, part) in enumerate(_kernels(layers, names)):
            at = base + 10 + 50 * number
            trace.api(1, "cudaLaunchKernel", at + 5, at + 15, corr=corr + number)
            trace.kernel(corr + number, base + 600 + 120 * number, base + 600 + 120 * number + ns, name=name)
            if labelled and part:
                named(trace, at, layer, part)
    return trace


def graph(
    *, creation: bool, layers: int = 2, names=("attn", "mlp"), copies: int = 1, schema: str = "3.7"
) -> TraceBuilder:
    """The same kernels as one graph a step. `creation`: the capture of the graph is recorded, in modules; `copies`: of copies of its nodes."""
    trace = TraceBuilder(schema).process(100).thread(100, 1)
    kernels = _kernels(layers, names)
    for number, (_, _, layer, part) in enumerate(kernels if creation else ()):
        at = -5000 + 50 * number
        trace.graph_node(1000 + number, 1, at + 10)
        for copy in range(1, copies + 1):  # made later, outside any module
            node, original = 1000 * (copy + 1) + number, 1000 * copy + number
            trace.graph_node(node, 1, -1000 + copy).graph_node(node, 1, -1000 + copy, original=original)
        if part:
            named(trace, at, layer, part)
    for step in range(STEPS):
        base, corr = 2000 * step, 100 * step
        trace.range(1, label(step), base, base + 1000)
        trace.api(1, "cudaGraphLaunch", base + 10, base + 60, corr=corr)
        for number, (name, ns, _, _) in enumerate(kernels):
            start = base + 600 + 120 * number
            trace.kernel(corr, start, start + ns, name=name, graph_node=1000 * (copies + 1) + number)
    return trace


def _kernels(layers: int, names) -> list[tuple[str, int, int, str]]:
    found = [("embed", 50, 0, "")]
    for layer in range(layers):
        found += [(names[0], 100, layer, "attn"), (names[1], 60, layer, "mlp")]
    return found


EACH = {"": 50.0, "layers.0.attn": 100.0, "layers.0.mlp": 60.0, "layers.1.attn": 100.0, "layers.1.mlp": 60.0}


def of_step(reduction, period: int = 0) -> dict[str, float]:
    """Layer -> ns of one period."""
    mine = reduction.layers.filter(pl.col("period") == period).group_by("layer").agg(pl.col("share_ns").sum())
    return dict(mine.sort("layer").iter_rows())


def sources(reduction) -> dict[tuple[bool, str], tuple[int, int]]:
    """Of graphs, source -> kernels and ns."""
    return {row[:2]: row[2:4] for row in reduction.layer_sources.iter_rows()}


def test_an_op_has_the_layer_under_which_it_was_launched(tmp_path):
    reduction = reduced(eager(), tmp_path)
    assert [of_step(reduction, period) for period in range(3)] == [EACH] * 3
    assert sources(reduction) == {(False, ""): (3, 150), (False, "range"): (12, 960)}


def test_copies_are_part_of_the_time_that_layers_are_shares_of(tmp_path):
    trace = eager()
    for step in range(STEPS):  # 30 ns outside any module, after the kernels
        corr, at = 100 * step + 90, 2000 * step + 1300
        trace.api(1, "cudaMemcpyAsync", 2000 * step + 900, 2000 * step + 910, corr=corr).memcpy(
            corr, at, at + 30
        )
    reduction = reduced(trace, tmp_path)
    assert of_step(reduction) == {**EACH, "": 80.0}
    assert sources(reduction) == {(False, ""): (6, 240), (False, "range"): (12, 960)}


@pytest.mark.parametrize("schema", [name for name in SCHEMAS if name != "2019"])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_node_has_the_layer_in_which_its_original_was_made(schema, copies, tmp_path):
    reduction = reduced(graph(creation=True, copies=copies, schema=schema), tmp_path)
    assert of_step(reduction) == EACH
    assert sources(reduction) == {(True, ""): (3, 150), (True, "graph_creation"): (12, 960)}


def test_a_graph_that_was_captured_before_the_recording_has_no_layers(tmp_path):
    reduction = reduced(graph(creation=False), tmp_path)
    assert reduction.layers.is_empty() and reduction.layer_sources.is_empty()


def test_a_graph_launched_inside_a_layer_is_of_that_layer(tmp_path):
    trace = graph(creation=False)
    for step in range(STEPS):
        trace.range(1, "layer 0", 2000 * step, 2000 * step + 100, domain=None)
    assert of_step(reduced(trace, tmp_path)) == {"layer 0": 370.0}


def test_operators_inside_a_layer_are_of_the_layer(tmp_path):
    trace = eager()
    for step in range(STEPS):  # around the launch of layer 0's attention
        trace.range(1, "aten::linear, op_id = 3", 2000 * step + 62, 2000 * step + 90, domain=None)
    assert of_step(reduced(trace, tmp_path)) == EACH


def test_layers_divide_the_kernels_and_change_nothing_else(tmp_path):
    plain, with_layers = reduced(eager(labelled=False), tmp_path), reduced(eager(), tmp_path)
    assert plain.layers.is_empty()
    assert plain.kernels.equals(with_layers.kernels) and plain.keys.equals(with_layers.keys)
    by_key = (
        with_layers.layers.group_by("period", "key")
        .agg(pl.col("count", "share_ns").sum())
        .sort("period", "key")
    )
    assert by_key.equals(
        with_layers.kernels.select("period", "key", "count", "share_ns").sort("period", "key")
    )
