"""The Dockerfile, line by line, without a builder: what it copies is there, and its commands work in an environment of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tracediff
from tests.tiny import ROOT

LINES = [
    tuple(line.split(" ", 1))
    for line in (ROOT / "Dockerfile").read_text().splitlines()
    if line and not line.startswith("#")
]
KNOWN = {"FROM", "COPY", "RUN", "USER", "ENV", "WORKDIR", "ENTRYPOINT"}


def test_its_instructions() -> None:
    assert {name for name, _ in LINES} == KNOWN
    last = [words for name, words in LINES if name == "USER"]
    assert last == ["tracediff"] and ("RUN", "useradd --create-home tracediff") in LINES
    assert all(words.startswith("python:3.12-slim") for name, words in LINES if name == "FROM")


def test_it_copies_all_that_the_package_is_built_from() -> None:
    sources = [
        source
        for name, words in LINES
        if name == "COPY" and "--from" not in words
        for source in words.split()[:-1]
    ]
    assert all((ROOT / source).exists() for source in sources)
    packed = re.findall(r'^"([\w/]+)" = "tracediff/_', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert packed and {
        *packed,
        "tracediff",
        "tracediff_emulator",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    } == set(sources)


@pytest.mark.slow
def test_its_commands_make_a_program_that_compares(tmp_path: Path) -> None:
    """But for `useradd`. Dependencies come from this environment: only hatchling is fetched."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    env = {
        **os.environ, "PATH": f"{tmp_path / 'venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TRACEDIFF_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    for name, words in LINES:
        if name == "COPY" and "--from" not in words:
            *sources, target = words.split()
            for source in sources:
                place = Path(f"{tmp_path}{target}") / (source if len(sources) > 1 else "")
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                place.parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / source, place)
        elif name == "RUN" and not words.startswith("useradd"):
            command = re.sub(r"(?<=[ \"])/(?=src|wheels)", f"{tmp_path}/", words)
            alone = {"PIP_NO_DEPS": "1"} if command.startswith("pip install") else {}
            done = subprocess.run(
                ["sh", "-ec", command], env={**env, **alone}, capture_output=True, text=True, check=False
            )
            if "No matching distribution found for hatchling" in done.stderr:
                pytest.skip("no package index")
            assert done.returncode == 0, done.stderr
    (entry,) = [json.loads(words) for name, words in LINES if name == "ENTRYPOINT"]
    packages = [path for path in sys.path if path.endswith("site-packages")]
    env["PYTHONPATH"] = os.pathsep.join(
        packages
    )  # the wheel's own package comes from it, the others from here
    demo = ROOT / "fixtures" / "demo"
    words = [
        "compare",
        str(demo / "graph_a/graph_a1.sqlite.xz"),
        str(demo / "graph_gc/graph_gc.sqlite.xz"),
        "--html",
        "report.html",
        "-q",
    ]
    program = tmp_path / "venv" / "bin" / entry[0]
    said = subprocess.run(
        [program, "--version"], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert tracediff.__version__ in said
    subprocess.run([program, *words], env=env, cwd=tmp_path, check=True)
    assert "Python GC" in (tmp_path / "report.html").read_text()


def test_extras_that_are_named_are_there() -> None:
    """Of an extra that is not, nothing can be built or installed: in pyproject.toml itself, and in what errors and pages say."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [
        ROOT / "pyproject.toml",
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("tracediff/**/*.py"),
    ]
    named = re.findall(r"tracediff-gpu\[([\w,-]+)\]", "\n".join(path.read_text() for path in texts))
    assert named and {one for group in named for one in group.split(",")} <= extras.keys()
