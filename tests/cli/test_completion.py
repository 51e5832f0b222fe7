"""What a shell is told when the user presses Tab, asked as the shell asks it; and the shells' own opinion of the scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.tiny import ROOT

PROGRAM = "import sys; sys.argv[0] = 'tracediff'; from tracediff.cli.main import main; main()"


def run(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tracediff que", ["plain,query"]),
        ("tracediff compare --juni", ["plain,--junit"]),
        ("tracediff compare some/fol", ["file,some/fol"]),
        ("tracediff show some/fol", ["file,some/fol"]),
        ("tracediff query some/fol", ["file,some/fol"]),
    ],
)
def test_tab(typed, offered):
    words = str(len(typed.split()) - 1)
    out = run(COMP_WORDS=typed, COMP_CWORD=words, _TRACEDIFF_COMPLETE="bash_complete")
    assert out.splitlines() == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_that_shell(shell, tmp_path):
    script = run(_TRACEDIFF_COMPLETE=f"{shell}_source")
    assert f"_TRACEDIFF_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script, encoding="utf-8")
        subprocess.run([shell, "-n", str(path)], check=True)


def test_bash_completes(tmp_path):
    bin = tmp_path / "tracediff"
    bin.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n', encoding="utf-8")
    bin.chmod(0o755)
    asked = 'eval "$(_TRACEDIFF_COMPLETE=bash_source tracediff)"; COMP_WORDS=(tracediff sche); COMP_CWORD=1; _tracediff_completion tracediff; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.split() == ["schema"]
