"""An executable that stands in for `nsys export`: its help, and exports of one trace that were made before."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from fixtures.builders.columnar import to_folder

_PROGRAM = f"""#!{sys.executable} -I
import pathlib, shutil, sys
here, args = pathlib.Path(__file__).parent, sys.argv[1:]
if "--help" in args:
    print((here / "help").read_text())
    sys.exit()
with (here / "called").open("a") as log:
    log.write(" ".join(args) + "\\n")
kind, out = args[args.index("--type") + 1], pathlib.Path(args[args.index("-o") + 1])
report = pathlib.Path(args[-1]).read_text()
if kind in report.split("fails:")[-1].split(","):
    if kind == "parquetdir": out.mkdir(); (out / "StringIds.parquet").write_text("half")
    sys.exit("it cannot")
source = here / ("capture" if any(one.startswith("--tables=") for one in args) else kind)
shutil.copytree(source, out) if source.is_dir() else shutil.copy(source, out)
"""
HELP = "--tables=<pattern>\n--type= sqlite, hdf, arrowdir, and parquetdir."


class StandIn:
    """The folder of a stand-in, and its reports: which kinds of export it refuses, a report says itself."""

    def __init__(self, folder: Path, trace: Path, said: str = HELP) -> None:
        """`trace`: the SQLite export of every report."""
        self.folder = folder
        folder.mkdir()
        program = folder / "nsys"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        (folder / "help").write_text(said)
        shutil.copy(trace, folder / "sqlite")
        to_folder(trace, folder / "parquetdir")
        with closing(sqlite3.connect(folder / "capture")) as db:
            db.execute(f"ATTACH '{trace}' AS source")
            db.execute("CREATE TABLE META_DATA_CAPTURE AS SELECT * FROM source.META_DATA_CAPTURE")

    @staticmethod
    def report(path: Path, fails: str = "") -> Path:
        """A report of which these kinds of export fail, as `sqlite,parquetdir`."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"NVIDIA Tegra Profiler Report 2023@4@4@54 fails:{fails}")
        return path

    def calls(self) -> list[str]:
        """The kinds of export that were asked for, in order; `capture`: META_DATA_CAPTURE alone."""
        called = self.folder / "called"
        lines = called.read_text().splitlines() if called.exists() else []
        return ["capture" if "--tables=" in line else line.split()[2] for line in lines]

    def use(self, monkeypatch) -> None:
        """Make it the nsys of this process."""
        monkeypatch.setenv("NSYS", str(self.folder / "nsys"))
        assert os.access(self.folder / "nsys", os.X_OK)
