"""NVTX ranges in TensorRT-LLM's domain, through whichever NVTX binding is installed.

The `nvtx` package is used where it can be imported (it is what TensorRT-LLM uses: domain and registered
strings). nvtx 0.2.12 and later lose every push/pop range under Nsight Systems 2023.4: install nvtx<=0.2.10
there. Without the package, `torch.cuda.nvtx` carries the ranges in the default domain, and without torch
nothing is emitted.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

DOMAIN = "TensorRT-LLM"


def _optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception:
        return None


class Ranges:
    """Push/pop ranges by name; the annotation of a name without numbers is made once."""

    def __init__(self, *, use_torch: bool, kineto: bool = False) -> None:
        """`kineto`: ranges that torch.profiler records, instead of NVTX."""
        self._kineto = kineto
        use_torch = use_torch and not kineto
        self._nvtx = None if kineto else _optional("nvtx")
        self._torch_nvtx = importlib.import_module("torch").cuda.nvtx if use_torch else None
        self._made: dict[str, AbstractContextManager[Any]] = {}

    @property
    def backend(self) -> str:
        """`nvtx`, `torch` (no domain), `kineto` or `none`."""
        if self._kineto:
            return "kineto"
        if self._nvtx is not None:
            return "nvtx"
        return "torch" if self._torch_nvtx is not None else "none"

    def range(self, name: str) -> AbstractContextManager[Any]:
        """The range of a fixed name, to be used again."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self.once(name)
        return made

    def once(self, name: str, category: str | None = None) -> AbstractContextManager[Any]:
        """A range whose name is used once (a step label)."""
        if self._kineto:
            return Annotation(name)
        if self._nvtx is not None:
            annotation: AbstractContextManager[Any] = self._nvtx.annotate(
                name, domain=DOMAIN, category=category
            )
            return annotation
        if self._torch_nvtx is not None:
            return _TorchRange(self._torch_nvtx, name)
        return nullcontext()

    def record_gc(self) -> Callable[[], None]:
        """Emit a start/end range `Python GC` for each collection of this process; returns the way to stop."""
        start, end = self._start_end()
        open_range: list[Any] = []

        def on_gc(phase: str, info: dict[str, int]) -> None:
            if phase == "start":
                open_range.append(start("Python GC"))
            elif open_range:
                end(open_range.pop())

        gc.callbacks.append(on_gc)
        return lambda: gc.callbacks.remove(on_gc)

    def _start_end(self) -> tuple[Callable[[str], Any], Callable[[Any], None]]:
        if self._kineto:

            def start(name: str) -> Any:
                recorded = annotation(name)
                recorded.__enter__()
                return recorded

            return start, lambda recorded: recorded.__exit__(None, None, None)
        if self._torch_nvtx is not None:
            return self._torch_nvtx.range_start, self._torch_nvtx.range_end
        if self._nvtx is not None:
            return self._nvtx.start_range, self._nvtx.end_range
        return (lambda name: None), (lambda handle: None)


class _TorchRange:
    """A reusable push/pop range of `torch.cuda.nvtx`."""

    def __init__(self, nvtx: Any, name: str) -> None:
        self._nvtx = nvtx
        self._name = name

    def __enter__(self) -> None:
        self._nvtx.range_push(self._name)

    def __exit__(self, *exc: object) -> None:
        self._nvtx.range_pop()


@contextmanager
def gc_ranges(ranges: Ranges) -> Iterator[None]:
    """Record the collections inside the block when TLLM_PROFILE_RECORD_GC=1."""
    if os.environ.get("TLLM_PROFILE_RECORD_GC") != "1":
        yield
        return
    stop = ranges.record_gc()
    try:
        yield
    finally:
        stop()


# torch.profiler instead of nsys: one Kineto trace per rank of the profiled steps.


def file_of_rank(file: str, rank: int, ranks: int) -> Path:
    """The trace of one rank: `trace.json.gz` -> `trace.rank1.json.gz` where there are several."""
    path = Path(file)
    if ranks == 1:
        return path
    stem, dot, suffixes = path.name.partition(".")
    return path.with_name(f"{stem}.rank{rank}{dot}{suffixes}")


class TorchProfile:
    """torch.profiler around the profiled steps, with nothing on that only costs time.

    Made, started and stopped on the thread whose ranges are wanted: no other thread's are recorded.
    """

    def __init__(self, file: Path, *, cuda: bool) -> None:
        self._file = file
        profiler: Any = importlib.import_module("torch.profiler")
        kinds = profiler.ProfilerActivity
        self._profile = profiler.profile(activities=[kinds.CPU, *([kinds.CUDA] if cuda else [])])

    def start(self) -> None:
        """Begin to record."""
        self._profile.start()

    def stop(self) -> None:
        """Stop and write the trace."""
        self._profile.stop()
        self._profile.export_chrome_trace(str(self._file))


def annotation(name: str) -> AbstractContextManager[Any]:
    """A range that torch.profiler records."""
    recorded: AbstractContextManager[Any] = importlib.import_module("torch.profiler").record_function(name)
    return recorded


class Annotation:
    """A range for more than one use, one at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        recorded = annotation(self._name)
        recorded.__enter__()
        self._open.append(recorded)

    def __exit__(self, *exc: object) -> None:
        self._open.pop().__exit__(None, None, None)
