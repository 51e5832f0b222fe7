"""The devices of the emulator: a small decoder with random weights on a GPU, and a clock that plays one.

A generation step of the default model is 149 kernels in one CUDA graph: embedding, mask, eight layers of
eighteen kernels (layer norm, QKV GEMM, two cache writes, attention with its mask, projection, MLP), the
vocabulary GEMM, argmax and the position update. A new request is a prefill launched kernel by kernel.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from tracediff_emulator.options import GENERATED, Options
from tracediff_emulator.ranges import TorchProfile, file_of_rank

HEAD_DIM = 128
VOCABULARY = 32_000


class Device(Protocol):
    """What the executor loop asks of a device."""

    def prepare(self) -> None:
        """Stage the inputs of the step."""

    def forward(self, prompts: Mapping[int, int]) -> None:
        """Launch prefills of the new requests (slot -> tokens), then the generation step of all slots.

        The generation step is padded to all slots, as a server pads a batch to the sizes it has CUDA graphs for.
        """

    def sample(self) -> None:
        """Start the copy of the sampled tokens to the host."""

    def done(self) -> bool:
        """Whether the tokens of the step have arrived, without a call into CUDA and without the GIL."""

    def wait(self) -> list[int]:
        """Wait for the tokens of the step."""

    def profiler(self, start: bool) -> None:
        """Call cudaProfilerStart or cudaProfilerStop."""

    def close(self) -> None:
        """Let go of what other ranks share."""


class ClockDevice:
    """No device: launching takes 60 us and a step is finished `dry_gpu_us` after its launch."""

    def __init__(self, options: Options) -> None:
        self._slots = options.slots
        self._gpu_ns = options.dry_gpu_us * 1000
        self._finished = 0

    def prepare(self) -> None:
        """Nothing to stage."""

    def forward(self, prompts: Mapping[int, int]) -> None:
        """Set the time at which the step will be finished."""
        time.sleep(60e-6)
        self._finished = time.perf_counter_ns() + self._gpu_ns * (1 + len(prompts))

    def sample(self) -> None:
        """Nothing to copy."""

    def done(self) -> bool:
        """Look at the clock."""
        return time.perf_counter_ns() >= self._finished

    def wait(self) -> list[int]:
        """Sleep until the step is finished."""
        left = self._finished - time.perf_counter_ns()
        if left > 0:
            time.sleep(left / 1e9)
        return list(range(self._slots))

    def profiler(self, start: bool) -> None:
        """No CUDA profiler to tell."""

    def close(self) -> None:
        """Nothing to release."""


class TorchDevice:
    """The decoder on one GPU, or one rank of it under tensor parallelism."""

    def __init__(self, options: Options, rank: int, rendezvous: str) -> None:
        self._o = options
        self._torch: Any = importlib.import_module("torch")
        self._f: Any = importlib.import_module("torch.nn.functional")
        torch = self._torch
        if not options.cpu and not torch.cuda.is_available():
            raise SystemExit("mini_serve: no CUDA device (use --dry-run, or --cpu --eager)")
        self._cuda = not options.cpu
        self._dev = torch.device("cuda", rank) if self._cuda else torch.device("cpu")
        if self._cuda:
            torch.cuda.set_device(self._dev)
        torch.manual_seed(options.seed)
        self._dist: Any = None
        if options.tp > 1:
            os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
            self._dist = importlib.import_module("torch.distributed")
            self._dist.init_process_group(
                "nccl", init_method=f"file://{rendezvous}", rank=rank, world_size=options.tp
            )
            self._meet = self._dist.FileStore(rendezvous + ".meet", options.tp)
        self._kineto: TorchProfile | None = None
        if options.torch_profile:
            self._kineto = TorchProfile(
                file_of_rank(options.torch_profile, rank, options.tp), cuda=self._cuda
            )
        self._act = self._activation()
        self._attend = self._attention()
        torch.set_grad_enabled(False)  # of this thread: the one that made the device runs it
        self._make_weights()
        self._make_buffers()
        self._launchers = self._make_launchers()

    # -- set-up ------------------------------------------------------------------------------------

    def _make_weights(self) -> None:
        torch, o = self._torch, self._o
        h = o.hidden
        ffn = h * 11 // 4 // o.tp
        self._heads = h // HEAD_DIM // o.tp
        self._wide = self._heads * HEAD_DIM

        def weight(rows: int, columns: int) -> Any:
            return torch.randn(rows, columns, device=self._dev, dtype=torch.bfloat16) * 0.02

        self._embedding = weight(VOCABULARY, h)
        self._head = weight(VOCABULARY, h)
        self._norm = torch.ones(h, device=self._dev, dtype=torch.bfloat16)
        self._bias = torch.zeros(h, device=self._dev, dtype=torch.bfloat16)
        self._w = [
            {
                "qkv": weight(3 * self._wide, h),
                "out": weight(h, self._wide),
                "gate_up": weight(2 * ffn, h),
                "down": weight(h, ffn),
            }
            for _ in range(o.layers)
        ]
        for w in self._w:
            w["q"], w["k"], w["v"] = w["qkv"].split(self._wide)
            w["gate"], w["up"] = w["gate_up"].split(ffn)

    def _make_buffers(self) -> None:
        torch, o = self._torch, self._o
        n, length = o.slots, (o.context + GENERATED) * o.slow_kernel
        self._row = torch.arange(n, device=self._dev)
        self._columns = torch.arange(length, device=self._dev)
        self._tokens = torch.randint(0, VOCABULARY, (n,), device=self._dev)
        self._out = self._tokens.clone()
        self._pos = torch.full((n,), o.context, device=self._dev) + self._row % 4
        shape = (n, length, self._heads, HEAD_DIM)
        self._k = [torch.zeros(shape, device=self._dev, dtype=torch.bfloat16) for _ in self._w]
        self._v = [torch.zeros(shape, device=self._dev, dtype=torch.bfloat16) for _ in self._w]
        self._host = torch.zeros(n, dtype=torch.int64)
        if self._cuda:
            self._host = self._host.pin_memory()
        self._seen = (ctypes.c_int64 * n).from_address(self._host.data_ptr())
        self._event: Any = torch.cuda.Event() if self._cuda else None
        self._x: Any = None
        self._mask: Any = None
        if o.h2d_bytes:
            source = torch.zeros(o.h2d_bytes, dtype=torch.uint8)
            self._h2d_from = source.pin_memory() if self._cuda else source
            self._h2d_to = torch.empty(o.h2d_bytes, dtype=torch.uint8, device=self._dev)
            self._h2d_stream: Any = torch.cuda.Stream() if self._cuda else None

    def _make_launchers(self) -> list[Callable[[], object]]:
        """The calls that launch a generation step: one graph, a graph a layer, or the segments."""
        torch = self._torch
        segments: list[Callable[[], object]] = [self._segment(i) for i in range(self._o.layers)]
        if not self._cuda:
            return segments
        pool = None
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                for segment in segments:
                    segment()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._pos.fill_(self._o.context)
        if self._o.mode == "eager":
            return segments
        parts = [segments] if self._o.mode == "graph" else [[s] for s in segments]
        launchers: list[Callable[[], object]] = []
        for part in parts:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                for segment in part:
                    segment()
            pool = graph.pool()
            launchers.append(graph.replay)
        torch.cuda.synchronize()
        return launchers

    def _activation(self) -> Callable[[Any], Any]:
        if self._o.replace_kernel == "silu":
            module = importlib.import_module("tracediff_emulator.triton_silu")
            silu: Callable[[Any], Any] = module.silu
            return silu
        if self._o.replace_kernel == "functor":
            functor: Callable[[Any], Any] = self._f.hardswish
            return functor
        plain: Callable[[Any], Any] = self._f.silu
        return plain

    def _attention(self) -> Callable[..., Any]:
        plain: Callable[..., Any] = self._f.scaled_dot_product_attention
        if self._o.replace_kernel != "attention":
            return plain
        attention = importlib.import_module("torch.nn.attention")

        def other_library(*args: Any, **kwargs: Any) -> Any:
            with attention.sdpa_kernel(attention.SDPBackend.EFFICIENT_ATTENTION):
                return plain(*args, **kwargs)

        return other_library

    # -- the model ---------------------------------------------------------------------------------

    def _layer(self, x: Any, index: int, attend: Callable[[Any, Any, Any], Any]) -> Any:
        o, f, w = self._o, self._f, self._w[index]
        with self._module(f"layers.{index}.self_attn"):
            h = f.layer_norm(x, (o.hidden,), self._norm, self._bias)
            if o.split_kernel:
                q, k, v = f.linear(h, w["q"]), f.linear(h, w["k"]), f.linear(h, w["v"])
            else:
                q, k, v = f.linear(h, w["qkv"]).split(self._wide, -1)
            rows = (x.shape[0], self._heads, HEAD_DIM)
            attended = attend(q.view(rows), k.view(rows), v.view(rows))
            x = x + self._reduced(f.linear(attended.reshape(x.shape[0], self._wide), w["out"]))
        with self._module(f"layers.{index}.mlp"):
            h = f.layer_norm(x, (o.hidden,), self._norm, self._bias)
            if o.fuse_gate_up:
                gate, up = f.linear(h, w["gate_up"]).chunk(2, -1)
            else:
                gate, up = f.linear(h, w["gate"]), f.linear(h, w["up"])
            x = x + self._reduced(f.linear(self._act(gate) * up, w["down"]))
        more = o.more_kernels * (index + 1) // o.layers - o.more_kernels * index // o.layers
        for _ in range(more):
            f.layer_norm(x, (o.hidden,), self._norm, self._bias)
        return x

    def _module(self, name: str) -> AbstractContextManager[Any]:
        """The range of a module, where they are asked for."""
        if not self._o.label_layers or not self._cuda:
            return nullcontext()
        made: AbstractContextManager[Any] = self._torch.cuda.nvtx.range(name)
        return made

    def _reduced(self, x: Any) -> Any:
        if self._dist is not None:
            self._dist.all_reduce(x)
        return x

    def _segment(self, index: int) -> Callable[[], None]:
        """Layer `index` of a generation step; the first has the embedding, the last the head."""

        def attend(q: Any, k: Any, v: Any) -> Any:
            self._k[index][self._row, self._pos] = k
            self._v[index][self._row, self._pos] = v
            return self._attend(
                q[:, :, None],
                self._k[index].transpose(1, 2),
                self._v[index].transpose(1, 2),
                attn_mask=self._mask,
            )

        o = self._o

        def segment() -> None:
            if index == 0:
                self._x = self._f.embedding(self._tokens, self._embedding)
                self._mask = (self._columns <= self._pos[:, None])[:, None, None, :]
            self._x = self._layer(self._x, index, attend)
            if index == o.layers - 1:
                new = self._f.linear(self._x, self._head).argmax(-1)
                self._tokens.copy_(new)
                self._out.copy_(new)
                self._pos.add_(1)
                if o.traffic:  # a slot that waits for a request stays inside the cache
                    self._pos.clamp_(max=o.context + GENERATED - 1)

        return segment

    def _prefill(self, slot: int, tokens: int) -> None:
        o, f = self._o, self._f
        prompt = self._torch.randint(0, VOCABULARY, (tokens,), device=self._dev)
        x = f.embedding(prompt, self._embedding)
        for index in range(o.layers):

            def attend(q: Any, k: Any, v: Any, index: int = index) -> Any:
                self._k[index][slot, :tokens] = k
                self._v[index][slot, :tokens] = v
                parts = (part.transpose(0, 1)[None] for part in (q, k, v))
                return f.scaled_dot_product_attention(*parts, is_causal=True)[0].transpose(0, 1)

            x = self._layer(x, index, attend)
        self._tokens[slot] = f.linear(x[-1:], self._head).argmax(-1)[0]
        self._pos[slot] = tokens

    # -- what the executor calls -------------------------------------------------------------------

    def prepare(self) -> None:
        """Mark the token buffer as not arrived; allocate and copy the planted bytes ahead of the launch."""
        self._seen[-1] = -1
        if self._o.alloc_bytes:
            # Without the second line the caching allocator would keep the block, and CUDA see one call in all.
            self._torch.empty(self._o.alloc_bytes, dtype=self._torch.uint8, device=self._dev)
            self._torch.cuda.empty_cache()
        if self._o.h2d_bytes and not self._o.h2d_overlap:
            self._h2d_to.copy_(self._h2d_from, non_blocking=True)

    def forward(self, prompts: Mapping[int, int]) -> None:
        """Launch the prefills and the generation step."""
        for slot, tokens in prompts.items():
            self._prefill(slot, tokens)
        for launch in self._launchers:
            launch()
            if self._o.sync_per_layer and self._cuda:
                self._torch.cuda.current_stream().synchronize()

    def sample(self) -> None:
        """Copy the tokens to pinned memory; the overlapped copy goes to its own stream here."""
        self._host.copy_(self._out, non_blocking=True)
        if self._event is not None:
            self._event.record()
        if self._o.h2d_bytes and self._o.h2d_overlap:
            with self._torch.cuda.stream(self._h2d_stream):
                self._h2d_to.copy_(self._h2d_from, non_blocking=True)

    def done(self) -> bool:
        """Look at the pinned token buffer."""
        return self._seen[-1] >= 0

    def wait(self) -> list[int]:
        """Synchronise with the stream and read the tokens."""
        if self._cuda:
            self._torch.cuda.current_stream().synchronize()
        return list(self._seen)

    def profiler(self, start: bool) -> None:
        """Start or stop the CUDA profiler, or torch's own, the GPU idle."""
        if self._cuda:
            self._torch.cuda.synchronize()
        if self._kineto is not None:
            (self._kineto.start if start else self._kineto.stop)()
        elif self._cuda:
            cudart = self._torch.cuda.cudart()
            (cudart.cudaProfilerStart if start else cudart.cudaProfilerStop)()
        if self._dist is not None:
            # The profiler starts in one rank milliseconds before the next; without this the first step waits.
            key = "started" if start else "stopped"
            self._meet.add(key, 1)
            while self._meet.add(key, 0) < self._o.tp:
                time.sleep(1e-3)

    def close(self) -> None:
        """Leave the process group, its graphs first: a graph holds on to the communicator."""
        if self._dist is not None:
            self._torch.cuda.synchronize(self._dev)
            self._launchers.clear()
            self._dist.destroy_process_group()


def make_device(options: Options, rank: int, rendezvous: str) -> Device:
    """The device that the options ask for."""
    return ClockDevice(options) if options.dry_run else TorchDevice(options, rank, rendezvous)
