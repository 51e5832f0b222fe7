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
from typing import Any

_IDS = (1_000, 20_000)  # token ids that every vocabulary of a language model has, and no special ones


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The options. Raises SystemExit."""
    parser = argparse.ArgumentParser(prog="trtllm-llmapi", description=__doc__)
    parser.add_argument("--model", required=True, help="a name of Hugging Face, or a folder")
    parser.add_argument("--options", type=Path, help="YAML or JSON: further arguments of tensorrt_llm.LLM")
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


async def _served(llm: Any, inputs: Sequence[list[int]], sampling: Any) -> list[list[float]]:
    """All requests at once: when each was sent, and when each of its responses came, s."""

    async def one(tokens: list[int]) -> list[float]:
        times = [time.perf_counter()]
        async for _ in llm.generate_async(tokens, sampling, streaming=True):
            times.append(time.perf_counter())
        return times

    return list(await asyncio.gather(*map(one, inputs)))


def figures(served: Sequence[Sequence[float]], tokens: int) -> dict[str, float]:
    """The latencies in the names of serving benchmarks, ms; `tokens`: of each response."""
    done = [times for times in served if len(times) > 1]
    whole = max(times[-1] for times in done) - min(times[0] for times in done) if done else 0.0
    values = {
        "ttft": [times[1] - times[0] for times in done],
        "tpot": [(times[-1] - times[1]) / (tokens - 1) for times in done],
        "itl": [after - before for times in done for before, after in pairwise(times[1:])],
        "e2el": [times[-1] - times[0] for times in done],
    }
    found: dict[str, float] = {"num_prompts": len(served), "completed": len(done)}
    if whole:
        found |= {"request_throughput": len(done) / whole, "output_throughput": len(done) * tokens / whole}
    for name, seconds in values.items():
        if ordered := sorted(1e3 * one for one in seconds):
            found |= {
                f"mean_{name}_ms": statistics.fmean(ordered),
                f"median_{name}_ms": statistics.median(ordered),
                f"p99_{name}_ms": ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)],
            }
    return found


def _options(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        found = json.loads(text)
    else:
        import yaml  # type: ignore[import-untyped]  # tensorrt_llm needs it

        found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise SystemExit(f"{file.name} holds no arguments by name")
    return found


def main(words: Sequence[str]) -> None:
    """Serve the requests, and write the report."""
    asked = arguments(words)
    try:
        from tensorrt_llm import LLM, SamplingParams  # type: ignore[import-not-found]
    except ImportError as error:
        raise SystemExit(f"{sys.executable} cannot import tensorrt_llm: {error}") from error
    llm = LLM(model=asked.model, **_options(asked.options))
    try:
        sampling = SamplingParams(max_tokens=asked.output_tokens, ignore_eos=True)
        drawn = prompts(asked.seed, asked.warmup + asked.requests, asked.input_tokens)
        if asked.warmup:
            asyncio.run(_served(llm, drawn[: asked.warmup], sampling))
        served = asyncio.run(_served(llm, drawn[asked.warmup :], sampling))
    finally:
        llm.shutdown()
    if asked.report:
        asked.report.write_text(json.dumps(figures(served, asked.output_tokens), indent=1), encoding="utf-8")


if __name__ == "__main__":  # workers that TensorRT-LLM spawns import this file
    main(sys.argv[1:])
