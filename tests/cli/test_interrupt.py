"""A comparison that is broken off ends at once and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.tiny import ROOT, one_gap

# The command line with a reduction that takes longer than anybody waits.
SLOW = """
import sys, time
import tracediff.accounting.reduce as reduce
reduce.reduce_capture = lambda *args, **options: time.sleep(300)
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""


both_signals = pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "aborted"), (signal.SIGTERM, 143, "terminated")]
)


@both_signals
def test_it_ends_at_once_and_cleans_up(number, status, said, tmp_path):
    scratch, out = tmp_path / "scratch", tmp_path / "out.json"
    scratch.mkdir()
    path = one_gap().write(tmp_path / "trace.sqlite")
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, "compare", str(path), str(path), "--json", str(out)],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not list(scratch.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)  # far less than the 300 s that the work would take
    finally:
        child.kill()
    assert child.returncode == status
    assert errors.strip() == said
    assert not list(scratch.iterdir())
    assert not out.exists()


# The signal comes while something is imported meanwhile, in a callback of a weak reference: what is raised there is dropped.
DROPPED = """
import os, sys, weakref
import tracediff.session as session
class Lock: pass
def ready():
    lock = Lock()
    there = weakref.ref(lock, lambda _: os.kill(os.getpid(), NUMBER))
    del lock
session._ready = ready
"""


@both_signals
def test_a_signal_during_imports_is_not_lost(number, status, said, tmp_path):
    path = one_gap().write(tmp_path / "trace.sqlite")
    done = subprocess.run(
        [sys.executable, "-c", DROPPED.replace("NUMBER", str(int(number))) + SLOW, "compare", str(path), str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (status, said)
