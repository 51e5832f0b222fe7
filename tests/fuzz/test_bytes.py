"""Files with wrong bytes: exports, packed or not, traces of torch.profiler, profiles of Nsight Compute, saved results."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracediff
from fixtures.builders.torch_trace import TorchTrace
from fixtures.builders.whole import whole
from tests.comparing import compare
from tests.fuzz.outcomes import check_result, numbers, outcome
from tests.fuzz.profile import examples
from tests.tiny import FIXTURES
from tracediff.cli.main import cli
from tracediff.companions.ncu.compare import compare_ncu
from tracediff.companions.ncu.read import read
from tracediff.errors import TracediffError
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Run, Side

READING = Reading(threads=1)


@st.composite
def damages(draw):
    """(where, what) as parts of the file's length, and where the file ends."""
    flips = draw(st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=9)), max_size=4))
    return flips, draw(st.one_of(st.none(), st.floats(0, 1)))


def damaged(content: bytes, damage) -> bytes:
    flips, end = damage
    out = bytearray(content)
    for where, what in flips:
        at = int(where * max(len(out) - len(what), 0))
        out[at : at + len(what)] = what
    return bytes(out if end is None else out[: int(end * len(out))])


def replaced(value, path, new):
    """A copy of a JSON value with the one at a path (numbers, each modulo what there is) replaced, or left out."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[path[0] % len(keys)]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if new is ... and len(path) == 1:
        del copy[key]
    else:
        copy[key] = replaced(value[key], path[1:], None if new is ... else new)
    return copy


changes = st.lists(
    st.tuples(
        st.lists(st.integers(0, 500), min_size=1, max_size=5),
        st.one_of(
            st.just(...), st.none(), st.booleans(), st.floats(), st.text(max_size=9), st.just([]), st.just({}), st.just("9" * 4000),
            st.sampled_from([0, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1e308, "1e400", "-5", "NaN"]),
        ),
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


def text_of(value, changed) -> str:
    for path, new in changed:
        value = replaced(value, path, new)
    return json.dumps(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bytes")


@pytest.fixture(scope="module")
def export(folder) -> bytes:
    return whole().write(folder / "intact.sqlite").read_bytes()


@pytest.fixture(scope="module")
def intact(folder, export):
    return side("intact", reduce_file(folder / "intact.sqlite", READING))


def side(name, reduction):
    return Side(name, [Run(name, [reduction])])


def measured(path: Path, intact: Side) -> None:
    """The file loads and compares, or an error says why not."""
    reduction = outcome(lambda: reduce_file(path, READING))
    if isinstance(reduction, TracediffError):
        assert path.name.split(".")[0] in str(reduction) and reduction.fix
        return
    assert reduction.residual_ns == 0
    result = outcome(lambda: compare(intact, side("other", reduction)))
    if not isinstance(result, TracediffError):
        check_result(result)


@given(damage=damages(), packed=st.booleans())
@examples(30)
def test_an_export_with_wrong_bytes(damage, packed, folder, export, intact):
    path = folder / ("damaged.sqlite.xz" if packed else "damaged.sqlite")
    path.write_bytes(damaged(lzma.compress(export, preset=0) if packed else export, damage))
    measured(path, intact)


@pytest.fixture(scope="module")
def torch(folder):
    trace = TorchTrace()
    for step in range(5):
        at, corr = 1_000_000 * step, 10 * step
        trace.range(1, f"ProfilerStep#{step}", at, at + 900_000).range(
            1, "aten::mm", at, at + 300_000, cat="cpu_op"
        )
        trace.api(1, "cudaLaunchKernel", at + 100_000, at + 120_000, corr + 1)
        trace.kernel(corr + 1, at + 150_000, at + 400_000, "gemm")
        trace.api(1, "cudaMemcpyAsync", at + 130_000, at + 140_000, corr + 2)
        trace.memcpy(corr + 2, at + 400_000, at + 450_000)
    path = trace.write(folder / "trace.json")
    return json.loads(path.read_text()), side("torch", reduce_file(path, READING))


@given(changed=changes)
@examples(30)
def test_a_trace_of_torch_with_other_values(changed, folder, torch):
    path = folder / "changed.json"
    path.write_text(text_of(torch[0], changed))
    measured(path, torch[1])


@given(damage=damages(), packed=st.booleans())
@examples(25)
def test_a_trace_of_torch_with_wrong_bytes(damage, packed, folder, torch):
    path = folder / ("broken.json.gz" if packed else "broken.json")
    content = json.dumps(torch[0]).encode()
    path.write_bytes(damaged(gzip.compress(content) if packed else content, damage))
    measured(path, torch[1])


NCU = (FIXTURES / "ncu" / "gemm_two.csv").read_text()


@st.composite
def pages(draw) -> str:
    """A page of ncu with other cells, without some rows or columns, or cut short."""
    lines = [line.split('","') for line in NCU.splitlines()]
    for row, column, value in draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 200), st.sampled_from(
        ["", "-1", "0", "nan", "inf", "1e999", "9" * 400, "1,5", "1.2.3", "us", "xyz", '"', "\x00", "12 34", "-0.0", "1e-320"]
    )), max_size=4)):  # fmt: skip
        cells = lines[row % len(lines)]
        cells[column % len(cells)] = value
    for row in draw(st.lists(st.integers(0, 9), max_size=2)):
        if len(lines) > 1:
            del lines[row % len(lines)]
    text = "\n".join('","'.join(cells) for cells in lines)
    return text[: int(draw(st.floats(0, 1)) * len(text))] if draw(st.booleans()) else text


@given(page=pages())
@examples(100)
def test_a_page_of_ncu_with_other_cells(page, folder):
    path = folder / "page.csv"
    path.write_text(page)
    profile = outcome(lambda: read(path))
    if isinstance(profile, TracediffError):
        assert "page.csv" in str(profile) and profile.fix
        return
    for sides in ((profile, INTACT), (INTACT, profile)):
        found = compare_ncu(*sides)
        values = dict(numbers(msgspec.to_builtins(found)))
        assert all(abs(value) < float("inf") for value in values.values())
        assert all(value >= 0 for path, value in values.items() if path.endswith("duration_ns"))


INTACT = read(FIXTURES / "ncu" / "gemm_fused.csv")


@pytest.fixture(scope="module")
def saved(folder, export):
    trace = folder / "intact.sqlite"
    comparison = tracediff.compare(trace, trace, cache=False, threads=1)
    comparison.to_json(folder / "saved.json")
    return json.loads((folder / "saved.json").read_text())


def reported(path: Path) -> None:
    """`tracediff report` renders it, or says that it is no result; nothing else."""
    page = path.with_suffix(".html")

    def report() -> None:
        with pytest.raises(SystemExit) as done:
            cli.main(["report", str(path), "--html", str(page), "-f", "-q"], standalone_mode=False)
        assert done.value.code in (0, 3, 4)

    page.unlink(missing_ok=True)
    error = outcome(report)
    assert page.exists() == (error is None)
    if error is not None:
        assert error.slug in ("not-a-result", "result-version") and path.name in str(error) and error.fix


@given(changed=changes)
@examples(25)
def test_a_saved_result_with_other_values(changed, folder, saved):
    path = folder / "result.json"
    path.write_text(text_of(saved, changed))
    reported(path)


@given(damage=damages())
@examples(25)
def test_a_saved_result_with_wrong_bytes(damage, folder, saved):
    path = folder / "result.json"
    path.write_bytes(damaged(json.dumps(saved).encode(), damage))
    reported(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"start":"', b'"start":"x '),
        (b'"what":"', b'"what":"99999 '),
        (b'"verdict_reason":"', b'"verdict_reason":"\x80'),
    ],
)
def test_a_saved_result_that_does_not_fit_together(before, after, folder, saved):
    content = json.dumps(saved, separators=(",", ":")).encode()
    assert before in content
    path = folder / "odd.json"
    path.write_bytes(content.replace(before, after, 1))
    with pytest.raises(TracediffError) as raised:
        cli.main(["report", str(path), "--html", str(folder / "odd.html"), "-f", "-q"], standalone_mode=False)
    assert raised.value.slug == "not-a-result" and not (folder / "odd.html").exists()
