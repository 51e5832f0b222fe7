"""The sentences of the first screen: one pattern each, with slots. Which one applies is decided on data, in report/first.py.

A pattern holds no condition. What a figure that is not there would leave open is another pattern.
"""

from __future__ import annotations

PATTERNS: dict[str, str] = {
    # What: the change as measured.
    "typical": "{direction} with {candidate}: {step} {before} -> {after} ({change}).",
    "mean": "{direction} with {candidate}: mean {step} {before} -> {after} ({change}); the typical one {typical}.",
    "regular": "{direction} with {candidate}: mean {step} {before} -> {after} ({change}): every {every} {step} of the {side} stops for {stop}.",
    "stops": "{direction} with {candidate}: mean {step} {before} -> {after} ({change}): the {side} stops for {stop} in {count} of {total} {step}s.",
    "length": "{direction} with {candidate}: the capture lasts {before} -> {after} ({change}).",
    "rounds": "{direction} with {candidate}: time per launch of {kernel} {before} -> {after} ({change}).",
    "gpu": "{direction} with {candidate}: GPU time per {step} {before} -> {after} ({change}).",
    "identical": "Same with {candidate}: every measured time is identical.",
    "checks": "Not comparable: {message} ({name}). {step}: {before} in {baseline}, {after} in {candidate}.",
    "nothing": "Unclear with {candidate}: nothing that both sides have was measured.",
    "title_typical": "{step} {before} -> {after} ({change})",
    "title_mean": "mean {step} {before} -> {after} ({change})",
    "title_length": "capture {before} -> {after} ({change})",
    "title_rounds": "time per launch of {kernel} {before} -> {after} ({change})",
    "title_gpu": "GPU time per {step} {before} -> {after} ({change})",
    "failed": "{name}: {baseline} against {candidate}.",
    # Why: its parts.
    "part": "{change} of it: {cause}",
    "part_rank": "{change} of it: {cause} on rank {rank}",
    "load": "The steps did other work: {before} -> {after} requests and tokens per {step}",
    "none": "No single cause holds a tenth of it",
    # By count.
    "counts": "By count: {counts}.",
    "count_workload": "{percent} of the launches have other grids (other work per step)",
    "count_graph_kernels": "{before} of {before_of} -> {after} of {after_of} kernels per {per} in CUDA graphs",
    "count_kernels": "{before} -> {after} kernels per {per}",
    "count_kernels_in": "{before} -> {after} kernels per {per} in {range}",
    "count_kernel": "{name} {before} -> {after} launches",
    "count_new": "{name} is new ({after} per {per})",
    "count_gone": "{name} is gone ({before} per {per})",
    "count_grid": "{name} in another grid",
    "count_dtype": "{name} kernels {before} -> {after}",
    "count_bytes": "{name} {before} -> {after}",
    "count_rate": "{name} in {before} -> {after} steps",
    "count_range": "range {name} entered {before} -> {after} times per {per}",
    "count_other": "{name} {before} -> {after}",
    # Would it repeat: the interval, and what most limits belief.
    "repeat": "A repeat would show {low} to {high} (95 %): {limit}.",
    "turns": "{runs} runs took turns on one machine",
    "runs": "{runs} runs",
    "few": "{runs} runs are too few to confirm it",
    "lone": "one run a side, so the interval is an assumption",
    "host": "up to {size} of it may be a {speed} CPU",
    "hidden": "it vanishes at equal CPU speed ({speed} on this candidate)",
    "share": "only {share} of the step time was compared",
    "within": "identical runs differ by as much",
    # Runs that are in no mean.
    "odd": "Run {run} of the {side} is left out: its typical {step} takes {size} {more} than that of the other runs.",
    "odd_host": "Run {run} of the {side} is left out: its typical {step} takes {size} {more}, its short CUDA calls {calls} than those of the others.",
    # Next: what to do about the first cause.
    "next": "Next: {advice}.",
    "record": "Next: record {runs} runs a side in turns (tracediff capture -n {runs}).",
}


def say(pattern: str, **slots: str) -> str:
    """A sentence. Raises KeyError for a pattern or a slot that is not there."""
    return PATTERNS[pattern].format_map(slots)
