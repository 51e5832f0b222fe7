"""Requests as a server gets them: Poisson arrivals, lognormal prompts and outputs.

The clock of the traffic is the step number, not the time. Whether a step is slow or fast, the same requests arrive
in it, so two runs with one seed have the same requests in step n, and their steps can be paired.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

PROMPT_MEDIAN = 1 / 3
"""The median prompt as a share of the longest one."""
PROMPT_SIGMA = 0.8
OUTPUT_MEDIAN = 24
OUTPUT_SIGMA = 0.7


@dataclass(frozen=True, slots=True)
class Request:
    """A request: the step in which it arrives, the tokens of its prompt, and the tokens that it generates."""

    step: int
    prompt_tokens: int
    output_tokens: int


def drawn(seed: int, rate: float, steps: int, longest_prompt: int, longest_output: int) -> list[Request]:
    """Requests of a run of `steps` steps, `rate` per step on average.

    Each request takes the same three draws, so that another rate or limit changes nothing else of it.
    """
    rng = random.Random(seed)
    requests: list[Request] = []
    at = 0.0
    while True:
        at += rng.expovariate(1.0) / rate
        prompt = rng.lognormvariate(math.log(longest_prompt * PROMPT_MEDIAN), PROMPT_SIGMA)
        output = rng.lognormvariate(math.log(OUTPUT_MEDIAN), OUTPUT_SIGMA)
        if at >= steps:
            return requests
        requests.append(Request(int(at), _between(prompt, longest_prompt), _between(output, longest_output)))


def _between(length: float, longest: int) -> int:
    return min(max(round(length), 1), longest)


class Traffic:
    """Which slots hold which request. Requests wait in the order of arrival until a slot is free."""

    def __init__(self, requests: Sequence[Request], slots: int) -> None:
        self._coming = deque(requests)
        self._waiting: deque[Request] = deque()
        self._free = list(range(slots))
        self._ends: dict[int, int] = {}

    def arrivals(self, step: int) -> dict[int, int]:
        """Tokens of the prompts that start in this step, by slot; slots of finished requests are free again."""
        for slot in [slot for slot, end in self._ends.items() if end <= step]:
            del self._ends[slot]
            self._free.append(slot)
        self._free.sort()
        while self._coming and self._coming[0].step <= step:
            self._waiting.append(self._coming.popleft())
        started = {}
        while self._waiting and self._free:
            one, slot = self._waiting.popleft(), self._free.pop(0)
            self._ends[slot] = step + one.output_tokens
            started[slot] = one.prompt_tokens
        return started

    @property
    def serving(self) -> set[int]:
        """The slots that hold a request."""
        return set(self._ends)
