"""The machine and the programs as they are: GPU, clocks, power, versions, commits, and what its nsys can do. Nothing is changed."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import msgspec

from tracediff.errors import TracediffError
from tracediff.formats import children
from tracediff.formats.reports import find_nsys

# The variables whose values are recorded. Every other variable is not: neither its value nor its name.
RECORDED_VARIABLES = frozenset({
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "NCCL_ALGO",
    "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_PROTO", "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS", "PYTHONGIL", "PYTHONHASHSEED", "PYTHON_GIL", "PYTORCH_CUDA_ALLOC_CONF",
    "TRACEDIFF_TRAFFIC_SEED",
    "TLLM_GPTM_PROFILE_START_STOP", "TLLM_GPTS_PROFILE_START_STOP", "TLLM_LLMAPI_ENABLE_NVTX",
    "TLLM_NVTX_DEBUG",
    "TLLM_PROFILE_LOG_RANKS", "TLLM_PROFILE_RECORD_GC", "TLLM_PROFILE_START_STOP",
    "TLLM_WORKER_USE_SINGLE_PROCESS", "TRTLLM_ENABLE_PDL", "TRTLLM_SERVER_DISABLE_GC",
    "TRTLLM_WORKER_DISABLE_GC",
    "SGLANG_ENABLE_NVTX_SCHEDULER", "VLLM_NVTX_SCOPES_FOR_PROFILING", "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_WORKER_MULTIPROC_METHOD",
})  # fmt: skip
PACKAGES = (
    "torch", "tensorrt_llm", "vllm", "sglang", "transformers", "tensorrt", "triton", "nvtx", "flashinfer-python",
    "nvidia-nccl-cu12",
)  # fmt: skip

# field of the manifest -> field of nvidia-smi
_GPU_FIELDS = {
    "name": "name",
    "driver": "driver_version",
    "sm_clock_mhz": "clocks.sm",
    "memory_clock_mhz": "clocks.mem",
    "max_sm_clock_mhz": "clocks.max.sm",
    "application_clock_mhz": "clocks.applications.graphics",
    "power_w": "power.draw",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
    "persistence": "persistence_mode",
}
_NAME = r"key|token(?!s|iz)|secret|passw|credential|auth|cookie|bearer|(?<![a-z])sig(?![a-z])|signature"
_PRIVATE = re.compile(_NAME, re.IGNORECASE)
# A name like these anywhere in a word, in quotes or not: `a=1,token=S`, `{"token": "S"}`, `?sig=S`. All that follows is hidden.
_SET = re.compile(rf"""(?:{_NAME})[\w.-]*[\\"']*\s*[=:](?!//)""", re.IGNORECASE)
# An option in a script for a shell, with its value.
_OPTION = re.compile(rf"""((?:^|\s)--?[\w-]*(?:{_NAME})[\w-]*\s+)("[^"]*"|'[^']*'|\S+)""", re.IGNORECASE)
# What a secret by itself begins with, by whoever gave it.
_KNOWN_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|gh[oprsu]_|github_pat_|glpat-|sk-|nvapi-|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|pypi-|npm_|eyJ)[\w.=+/-]{8,}"
)
_HIDDEN = "(not recorded)"
# What forges and runners of CI put into the environment of a job.
TOKENS = (
    "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "GITLAB_TOKEN", "CI_JOB_TOKEN", "CI_BUILD_TOKEN", "CI_JOB_JWT", "CI_JOB_JWT_V1", "CI_JOB_JWT_V2", "CI_REPOSITORY_URL",
    "CI_REGISTRY_PASSWORD", "CI_DEPLOY_PASSWORD", "CI_DEPENDENCY_PROXY_PASSWORD", "SYSTEM_ACCESSTOKEN", "BUILDKITE_AGENT_ACCESS_TOKEN",
    "CIRCLE_OIDC_TOKEN", "CIRCLE_OIDC_TOKEN_V2", "BITBUCKET_STEP_OIDC_TOKEN",
)  # fmt: skip


def forget_tokens() -> None:
    """Take the tokens of a job of CI out of this process's environment: no program that it starts gets one, unless a plan names it."""
    for name in TOKENS:
        os.environ.pop(name, None)


def run(
    command: Sequence[str],
    timeout_s: float = 30,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str | None:
    """What a command prints, or None when it does not exist or fails."""
    try:
        done = children.run(command, timeout_s, cwd, env)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def gpus() -> list[dict[str, Any]] | None:
    """Name, driver, clocks and power of each GPU by nvidia-smi; None where there is none."""
    if shutil.which("nvidia-smi") is None:
        return None
    out = run(
        ["nvidia-smi", f"--query-gpu={','.join(_GPU_FIELDS.values())}", "--format=csv,noheader,nounits"]
    )
    if not out or not out.strip():
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in out.strip().splitlines()]
    return [
        dict(zip(_GPU_FIELDS, map(_value, row), strict=True)) for row in rows if len(row) == len(_GPU_FIELDS)
    ]


def _value(text: str) -> Any:
    if not text or text.startswith("[") or text in ("N/A", "Unknown Error"):
        return None
    try:
        return float(text) if "." in text and text.count(".") == 1 else int(text)
    except ValueError:
        return text


def cuda_version() -> str | None:
    """The newest CUDA version that the driver runs, by nvidia-smi."""
    out = run(["nvidia-smi"]) if shutil.which("nvidia-smi") else None
    match = re.search(r"CUDA Version:\s*(\d+\.\d+)", out or "")
    return match[1] if match else None


def host() -> dict[str, Any]:
    """What does not change between runs. No host name, no user, no address."""
    return {
        "gpus": gpus(),
        "cuda": cuda_version(),
        "os": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def versions(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None
) -> dict[str, str | None]:
    """Versions of packages in the Python that the command runs in, without importing them."""
    python = _python_of(command, env, cwd or Path())
    # Packages may come by PYTHONPATH; what lies in the working directory is none of them, and is not imported.
    script = (
        "import sys; sys.path[:] = [p for p in sys.path if p]\n"
        "import importlib.metadata as m, json, platform\n"
        "def v(n):\n"
        "    try: return m.version(n)\n"
        "    except Exception: return None\n"
        f"print(json.dumps({{'python': platform.python_version(), **{{n: v(n) for n in {PACKAGES!r}}}}}))"
    )
    out = run([python, "-c", script], env={**os.environ, **env}) if python else None
    try:
        found = json.loads(out or "{}")
    except ValueError:
        found = {}
    return {str(name): value for name, value in found.items() if value}


def _python_of(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> str | None:
    for word in command:  # one with a slash is found from the working directory, as when it is started
        path = shutil.which(str((cwd / word).absolute()) if "/" in word else word, path=env.get("PATH"))
        if path is None:
            continue
        if PurePath(path).name.startswith("python"):
            return path
        try:
            with Path(path).open("rb") as file:
                first = file.readline(512)
        except OSError:
            return None
        match = re.match(rb"#!\s*(\S*python[\d.]*)\s*$", first)
        if match:
            return match[1].decode(errors="replace")
        if re.match(rb"#!\s*\S*/env\s+python", first):
            return shutil.which("python3", path=env.get("PATH")) or sys.executable
    return None


def commit(folder: Path, without: Sequence[Path] = ()) -> dict[str, Any] | None:
    """The git commit of a folder and whether files differ from it, but for some; None outside a repository."""
    head = run(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if head is None:
        return None
    but = [
        f":(exclude,literal){path.resolve()}"
        for path in without
        if path.resolve().is_relative_to(folder.resolve())
    ]
    status = ["status", "--porcelain", "--", ".", *but]
    changed = run(["git", "-C", str(folder), "--no-optional-locks", *status])
    return {"commit": head.strip(), "dirty": bool(changed.strip()) if changed is not None else None}


def recorded_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the allow-list, the rest left out."""
    return {name: env[name] for name in sorted(RECORDED_VARIABLES) if name in env}


def recorded_command(words: Sequence[str]) -> list[str]:
    """A command line without secrets: what follows a name of one, in the same word or as the next, and what looks like one."""
    out: list[str] = []
    hide = False
    for word in words:
        out.append(_HIDDEN if hide else _recorded_word(word))
        hide = word.startswith("-") and "=" not in word and _PRIVATE.search(word) is not None
    return out


def _recorded_word(word: str) -> str:
    shown, named, _ = word.partition(found[0]) if (found := _SET.search(word)) else (word, "", "")
    shown = _OPTION.sub(rf"\1{_HIDDEN}", _KNOWN_SECRET.sub(_HIDDEN, re.sub(r"://[^@/]*@", "://", shown)))
    return f"{shown}{named}{_HIDDEN}" if named else shown


def clocks_locked() -> bool | None:
    """Whether the SM clocks are locked; None where nvidia-smi does not tell.

    nvidia-smi has no field for it. Its sign is that the clocks' setting is what holds them back; False is
    only that this sign is missing, as on an idle GPU.
    """
    out = run(["nvidia-smi", "-q", "-d", "PERFORMANCE"]) if shutil.which("nvidia-smi") else None
    if out is None:
        return None
    found = re.findall(r"Applications Clocks Setting\s*:\s*(Active|Not Active)", out)
    return all(state == "Active" for state in found) if found else None


# What the user's nsys can do, read from its own help, and what it left behind when it did not import.


TRACES = ("cuda", "nvtx", "python-gil")  # osrt is left out on purpose: it writes gigabytes in seconds
_EXPORTS = ("sqlite", "hdf", "text", "json", "jsonlines", "info", "arrow", "arrowdir", "parquetdir")
_VERSION = re.compile(r"version\s+(\d{4}\.\d+(?:\.\d+)*)")
_METRICS_FLAG = re.compile(r"^\s+(--gpu-metrics-devices?)=", re.MULTILINE)
_FUNCTIONS_FLAG = re.compile(r"^\s+(--python-(?:functions-trace|nvtx-annotations))=", re.MULTILINE)
_QUOTED = re.compile(r"'([a-z0-9-]+)'")
_IMPORT_S = 1800.0
# beside nsys in NVIDIA's packages; Debian has nsys under lib/ARCHITECTURE and the importer under lib, also where its
# packages are unpacked into a folder that begins nsys with a script in bin
_IMPORTERS = tuple(f"{place}QdstrmImporter" for place in (
    "", "host-linux-*/", "nsight-systems*/host-linux-*/", "usr/lib/nsight-systems*/host-linux-*/",
))  # fmt: skip


class Features(msgspec.Struct, frozen=True):
    """What an nsys can do, as far as a command line depends on it."""

    traces: frozenset[str] = frozenset(TRACES)
    graph_trace: bool = True
    fork_before_exec: bool = True
    flush_interval: bool = True
    gpu_metrics_flag: str | None = "--gpu-metrics-device"
    functions_flag: str | None = "--python-functions-trace"


class Nsys(msgspec.Struct, frozen=True):
    """An nsys that answers."""

    path: Path
    version: str | None
    features: Features
    export_kinds: tuple[str, ...] = ()


def need_nsys() -> Nsys:
    """Find nsys and read what it can do. Raises `TracediffError`: nsys-missing, nsys-broken."""
    path = find_nsys()
    if path is None:
        raise TracediffError(
            "nsys-missing",
            "nsys was not found on PATH, in $NSYS or under /opt/nvidia",
            fix="install Nsight Systems (part of the CUDA toolkit) and put nsys on PATH, or set NSYS to it",
        )
    said = _ask(path, "--version")
    match = _VERSION.search(said)
    if match is None:
        raise TracediffError(
            "nsys-broken",
            f"{path.name} --version says no version: {said.strip()[:80] or 'nothing'}",
            fix="set NSYS to the nsys binary of an Nsight Systems installation",
        )
    kinds = _ask(path, "export", "--help").partition("--type=")[2]
    exports = tuple(kind for kind in _EXPORTS if re.search(rf"\b{kind}\b", kinds))
    return Nsys(path, match[1], _features(_ask(path, "profile", "--help")), exports)


def _ask(path: Path, *words: str) -> str:
    try:
        done = children.run([str(path), *words], 60)
    except OSError as error:
        raise TracediffError(
            "nsys-broken", f"{path.name} does not run: {error}", fix="set NSYS to an nsys that runs here"
        ) from error
    return done.stdout + done.stderr


def _features(help_text: str) -> Features:
    flags = re.split(r"^\s+(?=(?:-\w, )?--\w)", help_text, flags=re.MULTILINE)
    trace = next((part for part in flags if part.startswith("-t, --trace=")), "")
    metrics = _METRICS_FLAG.search(help_text)
    functions = _FUNCTIONS_FLAG.search(help_text)
    return Features(
        traces=frozenset(_QUOTED.findall(trace)),
        graph_trace="--cuda-graph-trace" in help_text,
        fork_before_exec="--trace-fork-before-exec" in help_text,
        flush_interval="--cuda-flush-interval" in help_text,
        gpu_metrics_flag=metrics[1] if metrics else None,
        functions_flag=functions[1] if functions else None,
    )


def import_raw(nsys: Path, raw: Path) -> Path:
    """Turn a .qdstrm, which an nsys without its host part leaves, or whose own import failed, into a .nsys-rep beside it.

    Raises `TracediffError`: nsys-import-failed.
    """
    report = raw.with_suffix(".nsys-rep")
    importer = _importer(nsys)
    said = "its importer (QdstrmImporter) is not installed"
    if importer is not None:
        # with the libraries that lie beside nsys, as it has them
        places = (str(nsys.resolve().parent.parent / "lib"), os.environ.get("LD_LIBRARY_PATH"))
        env = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, places))}
        try:
            done = children.run([str(importer), "-i", str(raw), "-o", str(report)], _IMPORT_S, env=env)
            said = ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
        except OSError as error:
            said = str(error)
    if not report.is_file():
        raise TracediffError(
            "nsys-import-failed",
            f"nsys left {raw.name} and no report: {said}",
            fix="install the whole of Nsight Systems (host part too), or import the file where "
            "the same version is whole: QdstrmImporter -i FILE.qdstrm",
        )
    raw.unlink()
    return report


def _importer(nsys: Path) -> Path | None:
    places = (
        path for folder in list(nsys.resolve().parents)[:4] for name in _IMPORTERS for path in sorted(folder.glob(name))
    )  # fmt: skip
    return next((path for path in places if os.access(path, os.X_OK)), None)
