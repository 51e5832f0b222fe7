"""A repository on a forge, with a clone as a job finds it, programs that can be captured, and a forge for comments."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.capture.stand_ins import StandIns
from tests.cli.test_comment import Forge
from tests.serving import serving
from tests.tiny import ROOT

# Program -> how long _schedule takes in each of its runs, in us; all else of a step takes 607 us.
SPEEDS = {
    "fast": (99, 101, 100, 100, 101, 99, 100, 101),
    "slow": (199, 201, 200, 202, 198),  # 707 -> 807 us: +14 %
    "noisy": (20, 240, 60, 200, 130),  # 130 us on average: +4 %, and the runs differ by far more
}


@dataclass
class Repository:
    """The clone in which a job runs, and the environment of the job."""

    clone: Path
    env: dict[str, str]

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.clone, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            (self.clone / name).write_text(text)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a change")
        return self.git("rev-parse", "HEAD")

    def request(self, **files: str) -> None:
        """Check out a pull request as actions/checkout does: its merge with main, without a branch."""
        self.git("checkout", "-q", "-B", "request", "main")
        self.commit(**files)
        self.git("checkout", "-q", "--detach", "main")
        self.git("merge", "-q", "--no-ff", "-m", "Merge", "request")


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The exports of each program, a run each."""
    folder = tmp_path_factory.mktemp("captures")
    found: dict[str, list[str]] = {}
    for name, times in SPEEDS.items():
        for number, schedule_us in enumerate(times):
            path = folder / f"{name}{number}.sqlite"
            serving(steps=30, schedule_us=schedule_us, jitter_us=2, seed=1000 * len(name) + number).write(
                path
            )
            packed = path.with_suffix(".sqlite.xz")
            packed.write_bytes(lzma.compress(path.read_bytes(), preset=0))
            found.setdefault(name, []).append(str(packed))
    return found


@pytest.fixture
def repository(tmp_path: Path, captures: dict[str, list[str]]) -> Repository:
    """A repository in which main is fast, with the files of `tracediff init` and their two edits."""
    bin_folder = tmp_path / "bin"
    StandIns(bin_folder, [], [])
    (bin_folder / "captures.json").write_text(json.dumps(captures))
    python = (
        bin_folder / "python3"
    )  # of `python3 -m venv DIR`: an installation is not what these tests are about
    python.write_text(
        f"""#!/bin/sh
set -e
[ "$1 $2" = "-m venv" ]
mkdir -p "$3/bin"
printf '#!/bin/sh\\nexec {sys.executable} -m tracediff "$@"\\n' > "$3/bin/tracediff"
printf '#!/bin/sh\\necho "pip $*"\\n' > "$3/bin/pip"
chmod +x "$3/bin/tracediff" "$3/bin/pip"
"""
    )
    python.chmod(0o755)
    env = {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "NO_PROXY": "*",
        "TRACEDIFF_CACHE": str(tmp_path / "cache"), "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    (tmp_path / "gitconfig").write_text(
        "[user]\nname = me\nemail = me@example.org\n[init]\ndefaultBranch = main\n"
    )
    (tmp_path / "origin").mkdir()
    made = Repository(tmp_path / "origin", env)
    made.git("init", "-q")
    subprocess.run(
        [sys.executable, "-m", "tracediff", "init"], cwd=made.clone, env=env, check=True, capture_output=True
    )
    plan = made.clone / "perf" / "plan.toml"
    plan.write_text(
        plan.read_text().replace('"python serve.py"', '"program serve"').replace("repeats = 5", "repeats = 4")
    )
    made.commit(speed="fast")
    made.git("clone", "-q", str(made.clone), str(tmp_path / "clone"))
    made.clone = tmp_path / "clone"
    return made


@pytest.fixture
def forge() -> Forge:
    made = Forge()
    yield made
    made.server.shutdown()
    made.server.server_close()
