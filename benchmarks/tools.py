"""Other tools, each in a virtual environment of its own; what cannot be installed says why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tracediff.formats.reports import find_nsys

_PIP_S = 600
_MODULES = {"nsys-ai": "nsys_ai.cli", "HolisticTraceAnalysis": "hta.trace_diff", "pandas": "pandas"}
_SCANNER = "duckdb-extension-sqlite-scanner"


@dataclass(frozen=True)
class Tool:
    """One installed tool: its programs, its version in words, and the environment that it needs."""

    folder: Path
    version: str
    env: dict[str, str] = field(default_factory=dict)

    def program(self, name: str) -> str:
        return str(self.folder / name)


class MissingToolError(Exception):
    """A tool that is not here; its text is the reason."""


class Tools:
    """Tools under one folder, installed there from PyPI when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Tool | MissingToolError] = {}

    def get(self, name: str) -> Tool:
        """The tool; raises `MissingToolError`."""
        if name not in self._known:
            try:
                self._known[name] = _nsys() if name == "nsys" else self._install(name)
            except MissingToolError as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, MissingToolError):
            raise found
        return found

    def versions(self) -> dict[str, str]:
        """Of those that are here."""
        return {name: one.version for name, one in sorted(self._known.items()) if isinstance(one, Tool)}

    def _install(self, package: str) -> Tool:
        venv = self._folder / package
        programs = venv / "bin"
        if not (programs / "installed").exists():
            shutil.rmtree(venv, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(venv)], package)
            _run([str(programs / "python"), "-m", "pip", "install", "-q", package], package)
            (programs / "installed").touch()
        version = _version(programs, package)
        tool = _with_scanner(venv, version) if package == "nsys-ai" else Tool(programs, version)
        _python(programs, f"import {_MODULES[package]}")  # its first start, from the disk, is not measured
        return tool


def _nsys() -> Tool:
    found = find_nsys()
    if found is None:
        raise MissingToolError("no nsys on PATH or in $NSYS")
    said = subprocess.run([str(found), "--version"], capture_output=True, text=True, check=False).stdout
    return Tool(found.parent, said.split("version")[-1].strip().split("-")[0] or "unknown")


def _with_scanner(venv: Path, version: str) -> Tool:
    """nsys-ai at its best: its DuckDB reads exports only with an extension, which it would fetch over the network.

    The newest of these on PyPI is installed with the DuckDB that it is for, and put where DuckDB looks: into a home folder.
    """
    programs, home = venv / "bin", venv / "home"
    pip = [str(programs / "python"), "-m", "pip", "install", "-q"]
    try:
        _run([*pip, _SCANNER], _SCANNER)
        duckdb = _version(programs, _SCANNER)
        _run([*pip, f"duckdb=={duckdb}"], "duckdb")
        platform = _python(programs, "import duckdb; print(duckdb.sql('PRAGMA platform').fetchone()[0])")
        (found,) = venv.glob(
            f"lib/*/site-packages/duckdb_extension_sqlite_scanner/extensions/v{duckdb}/*.duckdb_extension"
        )
    except (MissingToolError, ValueError):
        return Tool(programs, f"{version}, without DuckDB's scanner")
    place = home / ".duckdb/extensions" / f"v{duckdb}" / platform
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(found, place)
    return Tool(programs, f"{version}, with DuckDB {duckdb} and its scanner", {"HOME": str(home)})


def _version(programs: Path, package: str) -> str:
    return _python(programs, f"import importlib.metadata as m; print(m.version({json.dumps(package)}))")


def _python(programs: Path, code: str) -> str:
    return _run([str(programs / "python"), "-c", code], "python").strip()


def _run(command: list[str], package: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingToolError(f"{package} could not be installed ({type(error).__name__})") from error
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        raise MissingToolError(f"{package} could not be installed (pip exit {done.returncode})")
    return done.stdout
