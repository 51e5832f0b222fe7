"""A comparison of large exports that is broken off takes its worker processes and their scratch folders along."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny import ROOT, one_gap

# The command line as for large exports; a worker stops itself as soon as it has a task, as if that took for ever.
SLOW = """
import sys
import tracediff.execution.run as run
import tracediff.execution.pool as pool
run._WORTH_PROCESSES = 0
pool._START = "import os, signal; open(os.environ['STARTED'] + str(os.getpid()), 'w'); os.kill(os.getpid(), signal.SIGSTOP)"
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "aborted"), (signal.SIGTERM, 143, "terminated")]
)
def test_workers_end_with_the_command(number, status, said, tmp_path):
    scratch, started = tmp_path / "scratch", tmp_path / "started"
    scratch.mkdir()
    started.mkdir()
    one, other = (one_gap().write(tmp_path / f"{name}.sqlite") for name in ("one", "other"))
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, "compare", str(one), str(other), "--json", str(tmp_path / "out.json")],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT), "STARTED": f"{started}/"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not list(started.iterdir()):
            assert time.monotonic() < deadline and child.poll() is None, child.poll()
            time.sleep(0.05)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == status
    assert errors.strip() == said
    assert not list(scratch.iterdir())
    for path in started.iterdir():
        assert not Path("/proc", path.name).exists() or _ended(int(path.name))


def _ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
