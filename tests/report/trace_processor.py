"""Perfetto's own trace processor, to ask a trace in SQL. Where it is not installed there is a reason to skip."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

PIPE = Path(__file__).with_name("trace_processor.cjs")
FILES = ("trace_processor.wasm", "engine_bundle.node.js")


def missing() -> str:
    """Why there is none; '' where there is one."""
    folder = os.environ.get("TRACE_PROCESSOR", "")
    if not folder:
        return "no Perfetto trace processor: set $TRACE_PROCESSOR to the folder that .ci/install-trace-processor filled"
    if not all((Path(folder) / file).is_file() for file in FILES):
        return f"$TRACE_PROCESSOR ({folder}) does not hold {' and '.join(FILES)}"
    return "" if shutil.which("node") else "no node to run Perfetto's trace processor with"


class TraceProcessor:
    """One trace, loaded. Close it when done: it is a process."""

    def __init__(self, trace: bytes) -> None:
        self._protos = ProtoFactory(PlatformDelegate())
        words = ["node", str(PIPE), os.environ["TRACE_PROCESSOR"]]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        methods = self._protos.TraceProcessorRpc
        for at in range(0, len(trace), 1 << 24):
            reply = self._ask(
                request=methods.TPM_APPEND_TRACE_DATA, append_trace_data=trace[at : at + (1 << 24)]
            )
            assert not reply.append_result.error, reply.append_result.error
        reply = self._ask(request=methods.TPM_FINALIZE_TRACE_DATA)
        assert not reply.finalize_data_result.error, reply.finalize_data_result.error

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING
        request.query_args.sql_query = sql
        self._send(stream)
        reply = self._reply()
        while not (reply.query_result.batch and reply.query_result.batch[-1].is_last_batch):
            reply.query_result.MergeFrom(self._reply().query_result)
        result = reply.query_result
        assert not result.error, result.error
        names = list(result.column_names)
        assert len(set(names)) == len(names), "columns are told apart by their names"
        return [
            tuple(getattr(row, name) for name in names) for row in QueryResultIterator(names, result.batch)
        ]

    def _ask(self, **fields: Any) -> Any:
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        for name, value in fields.items():
            setattr(request, name, value)
        self._send(stream)
        return self._reply()

    def _send(self, stream: Any) -> None:
        data = stream.SerializeToString()
        assert self._process.stdin is not None
        self._process.stdin.write(struct.pack("<I", len(data)) + data)
        self._process.stdin.flush()

    def _reply(self) -> Any:
        """One framed message: field 1 of the stream, its length, its bytes."""
        assert self._read(1) == b"\x0a"
        length = shift = 0
        while True:
            (byte,) = self._read(1)
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        reply = self._protos.TraceProcessorRpc()
        reply.ParseFromString(self._read(length))
        assert not reply.HasField("fatal_error"), reply.fatal_error
        return reply

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            assert self._process.stderr is not None
            raise AssertionError(
                f"the trace processor ended: {self._process.stderr.read().decode(errors='replace')[-2000:]}"
            )
        return data
