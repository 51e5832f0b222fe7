"""Windows that a log of iterations proposes: each log so short that a reader sees which iterations they are."""

from __future__ import annotations

from tracediff.companions.bench.read import Iteration
from tracediff.companions.bench.windows import LONGEST, propose


def context(number: int, tokens: int | None, generating: int = 0) -> Iteration:
    return Iteration(number, 0, 2 + generating, 2, generating, 40.0, tokens)


def generation(*numbers: int, requests: int = 4, ms: float = 10.0) -> list[Iteration]:
    return [Iteration(number, 0, requests, 0, requests, ms, 0) for number in numbers]


def proposed(*iterations: Iteration) -> list[tuple[str, int, int]]:
    return [(one.why, one.first, one.last) for one in propose(iterations)]


def test_the_most_context_tokens_and_the_longest_generation() -> None:
    log = [
        context(0, 100), *generation(1, 2),
        context(3, 2000, 4), context(4, 1000, 4), *generation(5, 6, 7, 8),
        context(9, 500, 4), *generation(10, 11, 12),
    ]  # fmt: skip
    # 3000 tokens in 3 and 4, four iterations in 5 to 8
    assert proposed(*log) == [("context", 3, 4), ("generation", 5, 8)]
    first, second = propose(log)
    assert (first.ctx_reqs, first.ctx_tokens, first.gen_tokens, first.host_ms) == (2, 1500, 4, 40)
    assert (second.ctx_reqs, second.gen_tokens, second.host_ms) == (0, 4, 10)


def test_of_a_long_generation_the_middle() -> None:
    assert proposed(*generation(*range(100, 170))) == [("generation", 110, 110 + LONGEST - 1)]


def test_of_generations_as_long_that_with_more_requests() -> None:
    log = [*generation(0, 1, 2), *generation(10, 11, 12, requests=8)]
    assert proposed(*log) == [("generation", 10, 12)]


def test_a_largest_batch_elsewhere_has_a_window_of_its_own() -> None:
    log = [context(0, 900), *generation(1, 2, 3, 4), context(5, 10, 30), *generation(6)]
    # a window of one ends with the next iteration, so the generation begins one later
    assert proposed(*log) == [("context", 0, 1), ("generation", 2, 4), ("largest_batch", 5, 6)]


def test_numbers_that_are_missing_end_a_window() -> None:
    assert proposed(*generation(1, 2, 3, 7, 8)) == [("generation", 1, 3)]


def test_one_rank_is_enough_and_idle_iterations_are_none() -> None:
    idle = Iteration(3, 0, 0, 0, 0, 1500.0)
    other = [Iteration(number, 1, 9, 0, 9, 1.0) for number in range(1, 9)]
    assert proposed(*generation(1, 2), idle, *other) == [("generation", 1, 2)]
    assert propose([idle]) == []
    assert propose([]) == []
