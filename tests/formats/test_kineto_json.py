"""The JSON of torch.profiler in blocks: the same events whatever the size of a block, and what is no such trace."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.builders.torch_trace import TorchTrace
from tracediff.errors import TracediffError
from tracediff.formats.kineto import open_trace, peek

# texts that look like the borders of events, of strings and of the list itself
HOSTILE = [
    "}, {", '"},{"', "},\n  {", ']}, "traceEvents": [', '"traceEvents": [', "\\", '\\"', "é\U0001f600", "nan", ": nan,", "",
]  # fmt: skip


def read(path, block: int) -> tuple[dict, list[tuple]]:
    with open_trace(path, block=block) as trace:
        head = trace.head()
        return head, [
            (one.name, bytes(one.ts), json.loads(bytes(one.args) or "null"))
            for some in trace.blocks()
            for one in some
        ]


def slug(path, block: int = 1 << 20) -> str:
    with pytest.raises(TracediffError) as error:
        read(path, block)
    assert path.name in error.value.message
    return error.value.slug


ARGS = st.recursive(
    st.integers() | st.sampled_from(HOSTILE) | st.text(max_size=8) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*HOSTILE, "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from(HOSTILE), ARGS), max_size=6),
    block=st.integers(1, 400),
    indent=st.sampled_from([None, 0, 2]),
    compact=st.booleans(),
)
@pytest.mark.slow
def test_blocks_of_any_size_give_the_events_of_the_file(tmp_path_factory, events, block, indent, compact):
    document = {
        "schemaVersion": 1, "note": HOSTILE[3],
        "traceEvents": [{"ph": "X", "name": name, "ts": 1.5, "args": {"of": args}} for name, args in events],
        "after": [{"a": {}}, {"b": [{}]}],
    }  # fmt: skip
    path = tmp_path_factory.mktemp("trace") / "t.json"
    path.write_text(json.dumps(document, indent=indent, separators=(",", ":") if compact else None), "utf-8")
    head, found = read(path, block)
    assert head == {"schemaVersion": 1, "note": HOSTILE[3]}
    assert found == [(name, b"1.5", {"of": args}) for name, args in events]


def test_packed_or_not_is_seen_by_the_content(tmp_path):
    text = TorchTrace().range(1, "a", 0, 1).text().encode()
    for name, data in (
        ("a.json", gzip.compress(text)),
        ("b.json.gz", text),
        ("c.json.gz", gzip.compress(text)),
    ):
        (tmp_path / name).write_bytes(data)
        assert [name for name, _, _ in read(tmp_path / name, 100)[1]][-1] == "a"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty-file"),
        (b"  \n", "empty-file"),
        (b"SQLite format 3\0", "not-json"),
        (b'{"schemaVersion": 1, oops, "traceEvents": []}', "not-json"),
        (b'{"a": 1,}', "not-json"),
        (b'{"a": 1', "truncated"),
        (b'{"a": [1, 2]}', "no-trace-events"),
        (b'[{"ph": "X", "name": "a", "ts": 1, "dur": 2}]', "not-kineto"),
        (b'{"traceEvents": [{"ph": "X"}, {"ph": "X"', "truncated"),
        (b'{"traceEvents": [{"ph": "X"}, {"ph": "X"},', "truncated"),
        (b'{"traceEvents": [', "truncated"),
        (b'{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "truncated"),
        (b'{"traceEvents": [17]}', "truncated"),
    ],
)
def test_what_is_no_trace_says_so(content, expected, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert slug(path) == expected
    assert slug(path, 3) == expected


def test_a_packed_trace_that_is_cut_or_damaged(tmp_path):
    data = TorchTrace().range(1, "a" * 2000, 0, 1).write(tmp_path / "t.json.gz").read_bytes()
    cut, damaged = tmp_path / "cut.json.gz", tmp_path / "damaged.json.gz"
    cut.write_bytes(data[:-30])
    damaged.write_bytes(data[:40] + bytes(byte ^ 255 for byte in data[40:60]) + data[60:])
    assert slug(cut) == "truncated"
    assert slug(damaged) == "bad-gzip"


def test_where_a_trace_is_damaged(tmp_path):
    path = tmp_path / "t.json"
    good = b'{"traceEvents": [{"ph": "X"}, '
    begun = b'{"ph": '
    path.write_bytes(good + begun + b"oops}]}")
    with pytest.raises(TracediffError) as error:
        read(path, 1 << 20)
    assert f"byte {len(good + begun)} of the JSON text" in error.value.message


def test_what_profilers_write_that_is_no_json(tmp_path):
    """Bytes that are not UTF-8, raw control characters, nan and inf: read as far as they can be."""
    path = tmp_path / "t.json"
    path.write_bytes(
        b'{"schemaVersion": 1, "traceEvents": [\n'
        b'{"ph": "X", "name": "bad \xff byte", "ts": 1.000, "args": {"bandwidth": inf, "x": -nan}},\n'
        b'{"ph": "X", "name": "tab\there, \\"of\\": inf", "ts": 2.000, "args": {"y": NaN }},\n'
        b'{"ph": "X", "name": "last", "ts": 3.000, "args": {}}]}'
    )
    for block in (40, 1 << 20):
        assert read(path, block)[1] == [
            ("bad \ufffd byte", b"1.000", {"bandwidth": None, "x": None}),
            ('tab here, "of": inf', b"2.000", {"y": None}),
            ("last", b"3.000", {}),
        ]


def test_a_glance_at_a_file_tells_traces_from_other_json(tmp_path):
    trace = TorchTrace().write(tmp_path / "t.json.gz")
    other = tmp_path / "result.json"
    other.write_text('{"format_version": 1}')
    chrome = tmp_path / "chrome.json"
    chrome.write_text('{"traceEvents": []}')
    found = peek(trace)
    assert found is not None
    assert found["cupti_version"] == 28
    assert (peek(other), peek(chrome), peek(tmp_path / "missing.json")) == (None, None, None)
