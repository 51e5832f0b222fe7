"""Executables that stand in for nsys, nvidia-smi and the TensorRT-LLM programs, on a PATH of their own.

Each appends what it was called with to calls.jsonl. The stand-in for nsys runs the program, and its report
names a capture, which its export unpacks: of those of the side in captures.json the next one. In a checkout
with a file `speed`, that says instead of the command which captures they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAIRS = Path(__file__).parents[2] / "fixtures" / "pairs"


def manifest_of(bundle: Path) -> dict[str, Any]:
    """manifest.json as it lies on disk."""
    data: dict[str, Any] = json.loads((bundle / "manifest.json").read_text())
    return data


_HEAD = f"""#!{sys.executable} -I
import json, os, pathlib, subprocess, sys, time
args = sys.argv[1:]
here = pathlib.Path(__file__).parent
def note(what, **more):
    with (here / "calls.jsonl").open("a") as f:
        names = [n for n in os.environ if n.startswith(("TLLM", "VLLM", "SGLANG", "SIDE", "FAKE", "TRACEDIFF_TRAFFIC"))]
        f.write(json.dumps(dict(what=what, args=args, env={{n: os.environ[n] for n in names}}, **more)) + "\\n")
"""

# What is asked again and again is answered by a shell, which starts in a tenth of the time of Python.
_NSYS = """#!/bin/sh
gil="'python-gil', "
[ "$FAKE_OLD_NSYS" ] && gil=
case "$*" in
--version) echo "NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0" ;;
"export --help") echo "--type=
 sqlite, hdf, text, arrow" ;;
*--help) echo "
\t-c, --capture-range=

\t--cuda-flush-interval=

\t--cuda-graph-trace=<granularity>

\t--gpu-metrics-devices=

\t-t, --trace=

\t   Possible values are 'cuda', 'nvtx', 'osrt', $gil'none'.

\t--python-functions-trace=

\t--trace-fork-before-exec=
" ;;
*) exec "$0-work" "$@" ;;
esac
"""

_NSYS_WORK = """
def value(*names):
    for i, a in enumerate(args):
        if a in names: return args[i + 1]
if args[0] == "profile":
    note("nsys")
    out, at = value("-o"), 1
    while at < len(args) and args[at].startswith("-"):
        at += 1 if "=" in args[at] or args[at].startswith("--") else 2
    env = dict(os.environ)
    for pair in (value("-e") or "").split(","):
        if pair: env[pair.split("=")[0]] = pair.split("=")[1]
    if os.environ.get("FAKE_NSYS_SAYS"): print(os.environ["FAKE_NSYS_SAYS"]); sys.exit(1)
    child = subprocess.Popen(args[at:], env=env)
    try: code = child.wait()
    except KeyboardInterrupt: child.wait(); code = 0
    side = "candidate" if "candidate" in " ".join(args[at:]) else "baseline"
    if pathlib.Path("speed").exists(): side = pathlib.Path("speed").read_text().strip()
    for name in ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"):
        out = out.replace("%q{" + name + "}", os.environ.get(name, "?"))
    kind = os.environ.get("FAKE_REPORT", "nsys-rep")
    steps = next((value for name, value in env.items() if name.endswith("_PROFILE_START_STOP")), "")
    repeats = "--capture-range-end=repeat" in args  # a report a window, numbered from 1, as nsys 2023.4.4 names them
    for end in [f".{n + 1}" for n in range(steps.count(",") + 1)] if repeats else [""]:
        if kind != "none" and code == 0: pathlib.Path(f"{out}{end}.{kind}").write_text(side)
    sys.exit(code)
elif args[0] == "export":
    import lzma
    side = pathlib.Path(args[-1]).read_text()
    turn = here / f"{side}.turn"
    n = int(turn.read_text()) if turn.exists() else 0
    turn.write_text(str(n + 1))
    files = json.loads((here / "captures.json").read_text())[side]
    pathlib.Path(value("-o")).write_bytes(lzma.decompress(pathlib.Path(files[n % len(files)]).read_bytes()))
"""

_SMI = """#!/bin/sh
case "$1" in
--query-gpu*) echo "NVIDIA H200, 580.95, 1980, 3201, 1980, 1980, 412.50, 700.00, 41, Enabled" ;;
"") echo "| NVIDIA-SMI 580.95   Driver Version: 580.95   CUDA Version: 13.0 |" ;;
*) [ "$FAKE_LOCKED" ] && echo "Applications Clocks Setting : Active" || echo "x : Not Active" ;;
esac
"""

_BENCH = """
note("trtllm-bench", cwd=os.getcwd())
for flag in ("--report_json", "--iteration_log"):
    if flag in args:
        path = pathlib.Path(args[args.index(flag) + 1])
        path.write_text(json.dumps({"performance": {"request_throughput_req_s": 10.0, "total_latency_ms": 5.0}}))
"""

_SERVE = """
import http.server, signal
note("trtllm-serve")
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
    def log_message(self, *a): pass
port = int(args[args.index("--port") + 1])
time.sleep(0.3)
server = http.server.HTTPServer(("127.0.0.1", port), H)
try: server.serve_forever()
except KeyboardInterrupt: note("trtllm-serve-stopped")
"""

# vllm and sglang: a benchmark that ends, or a server whose profiler is started and stopped by POST
_STACK = """
import http.server
note("stack")
if "serve" not in args: sys.exit(0)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
    def do_POST(self):
        note("post", path=self.path, body=self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        self.send_response(404 if os.environ.get("FAKE_NO_PROFILER") else 200); self.end_headers()
    def log_message(self, *a): pass
server = http.server.HTTPServer(("127.0.0.1", int(args[args.index("--port") + 1])), H)
try: server.serve_forever()
except KeyboardInterrupt: note("stack-stopped")
"""

_PROGRAM = """
note("program", cwd=os.getcwd())
mode = (here / "mode").read_text() if (here / "mode").exists() else ""
runs = sum('"what": "program"' in line for line in (here / "calls.jsonl").read_text().splitlines())
if mode.startswith("say "): print(mode[4:], file=sys.stderr); sys.exit(1)
if mode == f"fail-{runs}": print("CUDA out of memory", file=sys.stderr); sys.exit(7)
if mode == "hang":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    pathlib.Path(here / "hanging").write_text(str(os.getpid())); time.sleep(600)
if mode == f"interrupt-{runs}": os.kill(int((here / "runner.pid").read_text()), 2); time.sleep(600)
"""

# `ncu` writes a report that is a name, of what the side is, and prints the page of that name.
_NCU = (
    f"""
FIXTURES = pathlib.Path("{PAIRS.parent}")
"""
    + """def value(*names):
    for i, a in enumerate(args):
        if a in names: return args[i + 1]
if "--import" in args:
    name = pathlib.Path(value("--import")).read_text().removeprefix("NVR\\0")
    page = "raw" if "raw" in args else "source"
    path = FIXTURES / ("ncu/" + (f"{name}.csv" if page == "raw" else f"{name}_source.csv"))
    if path.exists(): print(path.read_text(), end="")
    sys.exit(0)
note("ncu")
program = args[args.index("-o") + 2:]
code = subprocess.run(program).returncode
if code or "refused" in program: print("==ERROR== ERR_NVGPUCTRPERM"); sys.exit(code or 1)
import re
page = "quant_vec1056" if "candidate" in program else "quant_scalar132"
if re.search(value("-k").removeprefix("regex:"), (FIXTURES / f"ncu/{page}.csv").read_text()):
    pathlib.Path(value("-o") + ".ncu-rep").write_text("NVR\\0" + page)
else: print("==WARNING== No kernels were profiled.")
"""
)

# Writes what its flags ask for, of the engine that --loadEngine names.
_TRTEXEC = f"""
note("trtexec")
flags = dict(word.partition("=")[::2] for word in args)
made = pathlib.Path({str(PAIRS.with_name("trtexec"))!r}) / pathlib.Path(flags["--loadEngine"]).stem.split("-")[0]
for flag, file in (("--exportTimes", "times.json"), ("--exportProfile", "profile.json"), ("--exportLayerInfo", "layers.json")):
    if flag in flags: pathlib.Path(flags[flag]).write_bytes((made / file).read_bytes())
print((made / "log.txt").read_text())
"""

# One rank after the other, as mpirun would start them.
_MPIRUN = """
note("mpirun")
for rank in range(int(args[0])):
    subprocess.run(args[1:], env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)}, check=True)
"""

_SRUN = (
    _MPIRUN.replace("mpirun", "srun")
    .replace("args[0]", "args[1]")
    .replace("args[1:]", "args[2:]")
    .replace("OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
)

_BODIES = {
    "nsys": _NSYS, "nsys-work": _NSYS_WORK, "nvidia-smi": _SMI, "trtllm-bench": _BENCH, "trtllm-serve": _SERVE, "program": _PROGRAM,
    "ncu": _NCU, "vllm": _STACK, "sglang": _STACK,
    "mpirun": _MPIRUN, "srun": _SRUN, "client": 'note("client")', "trtllm-llmapi-launch": "os.execvp(args[0], args)",
    "trtexec": _TRTEXEC, "gptManagerBenchmark": 'note("gptManagerBenchmark")',
}  # fmt: skip


class StandIns:
    """The folder of the stand-ins and what they were called with."""

    def __init__(self, folder: Path, baseline: list[str], candidate: list[str]) -> None:
        self.folder = folder
        folder.mkdir()
        for name, body in _BODIES.items():
            path = folder / name
            path.write_text(body if body.startswith("#!") else _HEAD + body)
            path.chmod(0o755)
        captures = {"baseline": baseline, "candidate": candidate}
        files = {
            side: [str(PAIRS / f"{name}.sqlite.xz") for name in names] for side, names in captures.items()
        }
        (folder / "captures.json").write_text(json.dumps(files))

    def calls(self, what: str | None = None) -> list[dict]:
        log = self.folder / "calls.jsonl"
        entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [entry for entry in entries if what in (None, entry["what"])]

    def mode(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)
