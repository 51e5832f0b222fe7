"""A file with a benchmark's own figures of one run -> `KpiReport`. The format is recognised by its content.

    trtllm-bench        `trtllm-bench throughput|latency --report_json FILE`
    serving-benchmark   `benchmark_serving.py --save-result`, of TensorRT-LLM and of vLLM
    iteration-log       log lines `iter = N, ...` of TensorRT-LLM's PyTorch backend (`print_iter_log: true`)
    iteration-stats     `trtllm-bench --iteration_log FILE`: an iteration's statistics a line
    cpp-iteration-log   log lines `{"Active Request Count":...}` of the C++ runtime; no times in them
    emulator            `--report FILE` of the emulator in `tracediff.capture.workloads`

Logs of any size are read line by line in bounded memory; lines that cannot be read are counted, not fatal.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import BinaryIO

from tracediff.errors import TracediffError
from tracediff.load.kpi_json import read_json
from tracediff.load.kpi_log import read_log
from tracediff.load.kpi_report import Iteration, Kind, KpiReport, Metric

__all__ = ["Iteration", "Kind", "KpiReport", "Metric", "read"]

MAX_JSON_BYTES = 256 << 20  # a JSON report has to be read as a whole
_JSON_OBJECT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"')


def read(path: Path) -> KpiReport:
    """Return the report in a file.

    Raises `TracediffError`: kpi-unreadable (no such file, no permission, too large), kpi-unknown-format.
    """
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "there is no such file"
            raise TracediffError("kpi-unreadable", f"{path}: {what}")
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ast warns of odd escapes in lines that are not Python
            report = _read(file, path)
    except OSError as error:
        raise TracediffError("kpi-unreadable", f"{path.name}: cannot be read: {error}") from error
    if report is None:
        raise TracediffError(
            "kpi-unknown-format",
            f"{path.name}: not a report of a benchmark that is known here",
            fix="give a trtllm-bench --report_json file, a serving benchmark's --save-result file,"
            " or a log of TensorRT-LLM with print_iter_log: true",
        )
    return report


def _read(file: BinaryIO, path: Path) -> KpiReport | None:
    looks_like_json = _JSON_OBJECT.match(file.read(4096)) is not None
    size = file.seek(0, 2)
    file.seek(0)
    if looks_like_json and size <= MAX_JSON_BYTES:
        report = read_json(file.read().removeprefix(b"\xef\xbb\xbf"), path.name)
        if report is not None:
            return report
        file.seek(0)
    report = read_log(file, path.name)
    if report is None and looks_like_json and size > MAX_JSON_BYTES:
        raise TracediffError(
            "kpi-unreadable",
            f"{path.name}: {size} bytes of JSON, the most that is read is {MAX_JSON_BYTES}",
            fix="save the report without its lists of single requests (no --save-detailed)",
        )
    return report
