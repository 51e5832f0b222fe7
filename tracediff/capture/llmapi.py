"""The program of preset `trtllm-llmapi`: requests drawn from a seed, through the LLM API of TensorRT-LLM, and their latencies as a report.

It runs in the Python that has `tensorrt_llm`, which may have no tracediff: it imports nothing else of this package. TensorRT-LLM itself
opens the profiler's window (TLLM_PROFILE_START_STOP), pushes ranges and marks collections, by the variables of the preset.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

_IDS = (1_000, 20_000)  # token ids that every vocabulary of a language model has, and no special ones

# Of a request before: its iterations count too where the profiler's window is told by their number.
_WARM_TOKENS = 8


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The options. Raises SystemExit."""
    parser = argparse.ArgumentParser(prog="trtllm-llmapi", description=__doc__)
    parser.add_argument("--model", required=True, help="a name of Hugging Face, or a folder")
    parser.add_argument(
        "--options",
        type=Path,
        help="YAML as for --extra_llm_api_options: further arguments of tensorrt_llm.LLM",
    )
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--input-tokens", type=int, default=128, help="of each request")
    parser.add_argument("--output-tokens", type=int, default=128, help="of each request")
    parser.add_argument("--warmup", type=int, default=4, help="requests before those that are measured")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TRACEDIFF_TRAFFIC_SEED", "0")))
    parser.add_argument("--report", type=Path, help="where the latencies go")
    found = parser.parse_args(words)
    least = {"requests": 1, "input_tokens": 1, "output_tokens": 2, "warmup": 0}
    for name, value in least.items():
        if getattr(found, name) < value:
            parser.error(f"--{name.replace('_', '-')} is at least {value}")
    return found


def prompts(seed: int, count: int, tokens: int) -> list[list[int]]:
    """Token ids of each request: the same for one seed."""
    rng = random.Random(seed)
    return [[rng.randrange(*_IDS) for _ in range(tokens)] for _ in range(count)]


Answer: TypeAlias = tuple[list[float], int]
"""When a request was sent and each of its responses came, s; and how many tokens came in all: a response has several with `stream_interval`."""


async def _served(llm: Any, inputs: Sequence[list[int]], sampling: Any) -> list[Answer]:
    """All requests at once."""

    async def one(prompt: list[int]) -> Answer:
        times, tokens = [time.perf_counter()], 0
        async for answer in llm.generate_async(prompt, sampling, streaming=True):
            times.append(time.perf_counter())
            tokens = len(answer.outputs[0].token_ids)
        return times, tokens

    return list(await asyncio.gather(*map(one, inputs)))


def figures(served: Sequence[Answer]) -> dict[str, float]:
    """The latencies in the names of serving benchmarks, ms."""
    done = [(times, tokens) for times, tokens in served if len(times) > 1]
    whole = max(times[-1] for times, _ in done) - min(times[0] for times, _ in done) if done else 0.0
    values = {
        "ttft": [times[1] - times[0] for times, _ in done],
        "tpot": [(times[-1] - times[1]) / (tokens - 1) for times, tokens in done if tokens > 1],
        "itl": [after - before for times, _ in done for before, after in pairwise(times[1:])],
        "e2el": [times[-1] - times[0] for times, _ in done],
    }
    found: dict[str, float] = {"num_prompts": len(served), "completed": len(done)}
    if whole:
        tokens = sum(count for _, count in done)
        found |= {"request_throughput": len(done) / whole, "output_throughput": tokens / whole}
    for name, seconds in values.items():
        if ordered := sorted(1e3 * one for one in seconds):
            found |= {
                f"mean_{name}_ms": statistics.fmean(ordered),
                f"median_{name}_ms": statistics.median(ordered),
                f"p99_{name}_ms": ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)],
            }
    return found


def main(words: Sequence[str]) -> None:
    """Serve the requests, and write the report."""
    asked = arguments(words)
    try:
        from tensorrt_llm import LLM, SamplingParams  # type: ignore[import-not-found]
        from tensorrt_llm.llmapi.llm_utils import update_llm_args_with_extra_options  # type: ignore[import-not-found]
    except ImportError as error:
        raise SystemExit(f"{sys.executable} cannot import tensorrt_llm: {error}") from error
    # as trtllm-bench and trtllm-serve read --extra_llm_api_options
    llm = LLM(**update_llm_args_with_extra_options({"model": asked.model}, asked.options))
    drawn = prompts(asked.seed, asked.warmup + asked.requests, asked.input_tokens)

    async def run() -> list[Answer]:
        brief, whole = (
            SamplingParams(max_tokens=tokens, ignore_eos=True)
            for tokens in (min(_WARM_TOKENS, asked.output_tokens), asked.output_tokens)
        )
        await _served(llm, drawn[: asked.warmup], brief)
        return await _served(llm, drawn[asked.warmup :], whole)

    try:
        served = asyncio.run(run())
    finally:
        llm.shutdown()
    if asked.report:
        asked.report.write_text(json.dumps(figures(served), indent=1), encoding="utf-8")


if __name__ == "__main__":  # workers that TensorRT-LLM spawns import this file
    main(sys.argv[1:])
