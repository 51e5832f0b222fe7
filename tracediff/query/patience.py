"""Waiting for the database in such a way that Ctrl-C is heard at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Do the work in another thread, so that Ctrl-C and SIGTERM reach this one; return or raise what it does.

    Broken off, `stop` is called until the work has ended; without it the work is left behind, for the process ends.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="tracediff")
    running = pool.submit(work)
    try:
        while not running.done():
            wait(
                [running], timeout=0.2
            )  # in turns: a wait without an end never hears of Ctrl-C, see measure/run
    except BaseException:
        while stop is not None and not running.done():
            stop()
            wait([running], timeout=0.2)
        raise
    finally:
        pool.shutdown(wait=running.done())
    return running.result()
