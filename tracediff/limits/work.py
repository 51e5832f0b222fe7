"""Launches whose work is known: large copies, and the kernels of operators of PyTorch whose shapes are told. Nothing is guessed.

Shapes come from `torch.autograd.profiler.emit_nvtx(record_shapes=True)`, whose ranges read `aten::mm, op_id = 7, sizes = [[16, 64], [64, 32]]`
(torch/csrc/profiler/util.cpp: getNvtxStr), or from torch.profiler with `record_shapes=True` (`Input Dims` and its neighbours of an operator).
A kernel's name and grid say no more than the product of M and N, rounded up to tiles, and nothing of K: they are not read for shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, frame, run_sql, sql
from tracediff.kernels.names import category
from tracediff.trace.periods import Unit

_SIZES = re.compile(
    r"(aten::\w+)(?:, seq = \d+)?(?:, op_id = \d+)?, sizes = (\[\[.*?\]\])(?:, input_op_ids = .*)?"
)
_TYPES = {
    "c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "float", "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8", "signed char": "int8",
}  # fmt: skip
_BYTES = {"bf16": 2, "fp16": 2, "float": 4, "tf32": 4, "fp32": 4, "fp8": 1, "int8": 1}
# numbers of c10::ScalarType, as `Concrete Inputs` spell the type of an output
_OUTPUT_BYTES = {"5": 2, "15": 2, "6": 4}
# operator -> places of is_causal (native_functions.yaml)
_CAUSAL = {
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
}  # fmt: skip
# operator -> places of both matrices among its inputs
_GEMMS = {
    "aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::bmm": (0, 1), "aten::baddbmm": (1, 2),
    "aten::_scaled_mm": (0, 1), "aten::_int_mm": (0, 1),
}  # fmt: skip
# Is_dropout, Is_causal, Is_local (off) and five more, as in flash_fwd_launch_template.h; nsys writes (bool)1, torch.profiler true
_BOOL = r", (?:\(bool\))?"
_FLASH_CAUSAL = re.compile(
    rf"flash_fwd_kernel<.*>{_BOOL}\w+{_BOOL}(0|1|true|false){_BOOL}(?:0|false)(?:{_BOOL}\w+){{5}}>"
)
_MOST = 1 << 40  # of a dimension: products stay exact in a float's range


class Work(msgspec.Struct, frozen=True):
    """What one run of an operator has to do.

    kind: gemm or attention. dtype: of its inputs, `float` for 32 bits, '' unknown. flop: 2 for each multiply and add. read, written: elements
    of the inputs and the output, None unknown. output: bytes of an element of the output where it is not of the inputs' type.
    masked: of attention whose range does not say is_causal, the work with a causal mask, None unknown, where `unsure`.
    """

    kind: str
    shape: str
    dtype: str
    flop: float
    read: int | None
    written: int
    output: int | None = None
    unsure: bool = False
    masked: Work | None = None

    def of_kernel(self, name: str) -> Work | None:
        """The work where the kernel of this name does it; None where neither it nor the range says whether a causal mask is on."""
        if not self.unsure:
            return self
        found = _FLASH_CAUSAL.search(name)
        if found is None:
            return None
        return self.masked if found[1] in ("1", "true") else replace(self, unsure=False, masked=None)

    def moved(self, dtype: str) -> float | None:
        """Bytes, each input read once and the output written once; None unknown. `dtype`: as `math_type` says it."""
        size = _BYTES.get(dtype)
        if self.read is None or not size:
            return None
        return float(self.read * size + self.written * (self.output or size))


class _Said(msgspec.Struct):
    """An operator as torch.profiler says it."""

    dims: list[Any] = msgspec.field(name="Input Dims")
    types: list[Any] = msgspec.field(name="Input type", default_factory=list)
    strides: list[Any] = msgspec.field(name="Input Strides", default_factory=list)
    concrete: list[Any] = msgspec.field(name="Concrete Inputs", default_factory=list)


def work_of(text: str, json: str | None) -> Work | None:
    """The work of an operator by the text of its range and, where there is one, by its JSON; None where it is not known."""
    if json is not None:
        try:
            said = msgspec.json.decode(json, type=_Said)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return _work(text, said)
    found = _SIZES.fullmatch(text)
    try:
        return _work(found[1], _Said(msgspec.json.decode(found[2]))) if found else None
    except msgspec.DecodeError:
        return None


def _work(operator: str, said: _Said) -> Work | None:
    if operator in _GEMMS:
        return _gemm(operator, said)
    return _attention(_CAUSAL[operator], said) if operator in _CAUSAL else None


def _gemm(operator: str, said: _Said) -> Work | None:
    places = _GEMMS[operator]
    if len(said.dims) <= max(places):
        return None
    one, other = (_dims(said.dims[place]) for place in places)
    if len(one) != len(other) or len(one) not in (2, 3) or one[-1] != other[-2] or one[:-2] != other[:-2]:
        return None
    batch, (m, k), n = one[:-2], one[-2:], other[-1]
    dtypes = {_dtype(said, place) for place in places}
    dtype = dtypes.pop() if len(dtypes) == 1 else ""
    # of a batch, what is one matrix for all of them is known by its strides alone
    known = not batch or all(_strides(said, place) for place in places)
    output = {"aten::_int_mm": 4, "aten::_scaled_mm": _scaled_output(said)}.get(operator)
    if operator == "aten::_scaled_mm":
        known = output is not None
    elif operator != "aten::_int_mm":  # with more arguments the output may be of another type
        known = known and len(said.dims) == (2 if operator in ("aten::mm", "aten::bmm") else 5)
    read = sum(_read(said, place, dims) for place, dims in zip(places, (one, other), strict=True))
    shape = " of ".join([*map(str, batch), f"{m} x {n} x {k}"])
    count = math.prod(batch) * m * n
    return Work("gemm", shape, dtype, 2.0 * count * k, read if known else None, count, output)


def _scaled_output(said: _Said) -> int | None:
    """Bytes of an element of what aten::_scaled_mm writes: its seventh argument is the type."""
    return _OUTPUT_BYTES.get(str(said.concrete[6])) if len(said.concrete) > 6 else None


def _attention(causal: int, said: _Said) -> Work | None:
    """Heads of keys and values may be fewer than those of queries."""
    if said.concrete:
        told = said.concrete[causal] if len(said.concrete) > causal else ""
        return _pairs(said, is_causal=told == "True") if told in ("False", "True") else None
    plain = _pairs(said, is_causal=False)
    return replace(plain, unsure=True, masked=_pairs(said, is_causal=True)) if plain else None


def _pairs(said: _Said, *, is_causal: bool) -> Work | None:
    """Causal with other lengths of queries and keys: which pairs are left is not known."""
    if len(said.dims) < 3:
        return None
    query, key, value = dims = [_dims(one) for one in said.dims[:3]]
    if any(len(one) != 4 for one in dims) or key[:3] != value[:3] or query[0] != key[0] or query[3] != key[3]:
        return None
    (batch, heads, many, width), length = query, key[2]
    if is_causal and many != length:
        return None
    pairs = many * (many + 1) // 2 if is_causal else many * length
    known = all(_strides(said, place) for place in range(3))
    read = sum(_read(said, place, one) for place, one in enumerate(dims))
    flop = 2.0 * batch * heads * pairs * (width + value[3])
    queries = f"{many} query" if many == 1 else f"{many} queries"
    shape = f"{batch} x {heads} heads, {queries}, {length} keys of {width}"
    shape = f"{shape}, causal" if is_causal else shape
    return Work(
        "attention", shape, _dtype(said, 0), flop, read if known else None, batch * heads * many * value[3]
    )


def _dims(value: object) -> tuple[int, ...]:
    """Dimensions of a tensor; () where it is none, or is empty."""
    if not isinstance(value, list) or not all(type(one) is int and 0 < one < _MOST for one in value):
        return ()
    return tuple(value)


def _strides(said: _Said, place: int) -> Sequence[int] | None:
    found = said.strides[place] if place < len(said.strides) else None
    if not isinstance(found, list) or len(found) != len(said.dims[place]):
        return None
    return found if all(type(one) is int for one in found) else None


def _read(said: _Said, place: int, dims: tuple[int, ...]) -> int:
    """Elements in memory: a dimension of stride 0 repeats them."""
    strides = _strides(said, place) or [1] * len(dims)
    return math.prod(size for size, stride in zip(dims, strides, strict=True) if stride)


def _dtype(said: _Said, place: int) -> str:
    return _TYPES.get(str(said.types[place]), "") if place < len(said.types) else ""


_HALVES = {
    "bf16": re.compile(r"bf16|bfloat16"),
    "fp16": re.compile(r"(?<!b)fp?16(?!\d)|h16816gemm|hgemm|half"),
}


def math_type(dtype: str, kernel: str) -> str:
    """The type that a kernel computes in, by which its peak is known; '' where that is not said.

    `dtype`: of the operator's inputs. Only of 32 bits does the kernel's name decide: TF32 on tensor cores, or FP32 outside them.
    """
    name = kernel.lower()
    single = "tf32" if "tf32" in name else "fp32" if re.search(r"sgemm|ffma", name) else ""
    if dtype == "float":
        return single
    if dtype:
        return dtype
    halves = [half for half, pattern in _HALVES.items() if pattern.search(name)]
    found = halves + ([single] if single else [])
    return found[0] if len(found) == 1 else ""


# Launches whose work is known, from the tables of a capture: large copies, and the kernels of operators whose shapes are told.


WORK = {
    "stratum": pl.Int64, "key": pl.Int64, "kind": pl.String, "dtype": pl.String, "shape": pl.String, "count": pl.Int64, "ns": pl.Int64,
    "flop": pl.Float64, "bytes": pl.Float64,
}  # fmt: skip
_OF = ["kind", "dtype", "shape", "flop", "bytes"]
_LAUNCH = {"start_ns": pl.Int64, "ns": pl.Int64, "pid": pl.Int64, "device": pl.Int64, "key": pl.Int64} | {
    name: WORK[name] for name in _OF
}
# what adds up the parts of a split K or of split keys: the operator's work is all in the kernel before
_HELPER = re.compile(r"splitkreduce|combine", re.IGNORECASE)


def launches_with_work(capture: Capture) -> pl.DataFrame:
    """One row a launch: start_ns, ns, pid, device, key (of op_key), kind, dtype, shape, flop, bytes; before `build_timeline`.

    bytes: null where not known. A kernel that adds up parts has flop 0.
    """
    return pl.concat([_copies(capture), _kernels(capture)])


def work_table(
    capture: Capture, launches: pl.DataFrame, units: list[Unit], periods: pl.DataFrame
) -> pl.DataFrame:
    """The columns of `WORK`: launches that start in whole periods, summed by stratum, kernel and shape; after `build_timeline`."""
    if not len(launches):
        return pl.DataFrame(schema=WORK)
    ids = frame(capture.db, "SELECT key, id FROM key_id")
    launches = launches.join(ids, on="key", maintain_order="left").with_columns(key="id")
    stratum, found, first = periods["stratum"].to_numpy(), [], 0
    for unit in units:
        mine = launches.filter(pid=unit.pid, device=unit.device)
        place = np.searchsorted(unit.bounds, mine["start_ns"].to_numpy(), side="right") - 1
        inside = (place >= 0) & (place < len(unit.step))
        found.append(
            mine.filter(pl.Series(inside)).with_columns(stratum=pl.Series(stratum[first + place[inside]]))
        )
        first += len(unit.step)
    by = ["stratum", "key", "kind", "dtype", "shape"]
    return (
        pl.concat(found)
        .group_by(by)
        .agg(
            pl.len().alias("count"),
            pl.col("ns", "flop").sum(),
            bytes=pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()),
        )
        .cast(WORK)  # type: ignore[arg-type]
        .select(list(WORK))
        .sort(by)
    )


# of a copy within a device every byte is read and written
_COPIES = {"[memcpy HtoD]": 1.0, "[memcpy DtoH]": 1.0, "[memcpy DtoD]": 2.0}


def _copies(capture: Capture) -> pl.DataFrame:
    """Which way a copy between two GPUs takes is recorded nowhere: these are left out."""
    found = frame(capture.db, sql("limits/copies"))
    return (
        found.filter(pl.col("name").is_in(list(_COPIES)))
        .with_columns(
            kind=pl.lit("copy"),
            dtype=pl.lit(""),
            shape=pl.lit(""),
            flop=pl.lit(0.0),
            bytes=pl.col("bytes") * pl.col("name").replace_strict(_COPIES, return_dtype=pl.Float64),
        )
        .select(list(_LAUNCH))
        .cast(_LAUNCH)  # type: ignore[arg-type]
    )


def _kernels(capture: Capture) -> pl.DataFrame:
    db, none = capture.db, pl.DataFrame(schema=_LAUNCH)
    if not db.execute(
        "SELECT 1 FROM range_text WHERE text LIKE 'aten::%, sizes = [[%' UNION ALL SELECT 1 FROM shape_payload LIMIT 1"
    ).fetchone():
        return none
    run_sql(db, "limits/operators")
    works: dict[tuple[str, str | None], Work | None] = {
        (text, json): work_of(text, json)
        for text, json in db.execute("SELECT DISTINCT text, json FROM operator").fetchall()
    }
    operators = db.execute("SELECT text, json, start_ns, end_ns, tid FROM operator ORDER BY ALL").fetchall()
    db.execute("DROP TABLE operator")
    runs = [(work, *row[2:]) for row in operators if (work := works[row[0], row[1]]) is not None]
    if not runs:
        return none
    times = np.array([row[1:] for row in runs], np.int64)
    columns = {"run": np.arange(len(runs)), **dict(zip(("start_ns", "end_ns", "tid"), times.T, strict=True))}
    create_table(db, "known", columns)
    found = frame(db, sql("limits/kernels_of_operators"))
    db.execute("DROP TABLE known")
    return _main_kernels(found, [row[0] for row in runs])


def _main_kernels(found: pl.DataFrame, runs: list[Work]) -> pl.DataFrame:
    """The kernel that does the work of each operator, where just one of its category does, and what adds up its parts."""
    distinct = list(dict.fromkeys(runs))
    number = {work: place for place, work in enumerate(distinct)}
    of_run = pl.DataFrame({"run": range(len(runs)), "work": [number[work] for work in runs]})
    found = found.join(of_run, on="run", maintain_order="left")
    rows = []
    for work_number, name in found.select("work", "name").unique(maintain_order=True).iter_rows():
        work, helps = distinct[work_number].of_kernel(name), bool(_HELPER.search(name))
        if work and category(name) == work.kind:
            dtype = "" if helps else math_type(work.dtype, name)
            told = ("", "", 0.0, None) if helps else (dtype, work.shape, work.flop, work.moved(dtype))
            rows.append((work_number, name, helps, work.kind, *told))
    schema = {"work": pl.Int64, "name": pl.String, "helps": pl.Boolean} | {name: WORK[name] for name in _OF}
    kinds = pl.DataFrame(rows, schema=schema, orient="row")
    return (
        found.join(kinds, on=["work", "name"], maintain_order="left")
        .filter((~pl.col("helps")).sum().over("run") == 1)
        .select(list(_LAUNCH))
    )
