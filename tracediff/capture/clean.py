"""What a scrubbed export may still say: allow-lists of tables, columns and records; the cleaning of text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tracediff.formats.schema import READ

REMOVED = "<removed>"

# Tables and their columns that stay, with the type of their values: those that are read of an export, and synchronisations, which are
# counted. Without DIAGNOSTIC_EVENT: its sentences hold what processes and files are called.
KEPT: dict[str, dict[str, str]] = {
    table: columns for table, columns in READ.items() if table != "DIAGNOSTIC_EVENT"
}
KEPT["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"] = dict.fromkeys(
    ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType", "eventId"), "BIGINT"
)  # fmt: skip
RECORDS = frozenset({"META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_SYSTEM_ENV"})
STRING_COLUMNS = frozenset({"demangledName", "shortName", "nameId", "textId"})
"""Columns that hold an id of StringIds, whose string is a name."""

_NUMBER = r"-?[0-9]{1,20}"
_VERSION = r"[0-9]+(\.[0-9]+){0,4}(-[0-9]+v[0-9]+)?"
# Record -> what its value may be. In front may stand the process that it is of.
_RECORDS = {
    "CAPTURE_EVENT_TYPE": "Cuda|NvtxEvents|OSRuntime", "CUDA_GRAPH_TRACE_OPTIONS:MODE": "Node|Graph", "COLLECT_CUDA_TRACE": "true|false",
    "COLLECT_NVTX_TRACE": "true|false", "RUN_DURATION_MS": _NUMBER, "RANK": _NUMBER, "EXPORT_PRODUCT_VERSION": _VERSION,
    "EXPORT_SCHEMA_VERSION": _VERSION, "NvDriverVersion": _VERSION, "CudaDriverVersion": _VERSION, "CpuCores": _NUMBER,
    "CpuArchitecture": "x86_64|aarch64|sbsa|arm64|ppc64le",
}  # fmt: skip
_PROCESS = re.compile(r"\APROCESS_[0-9]{1,10}:")
_GPU_WORD = re.compile(
    r"NVIDIA|Tesla|Quadro|GeForce|TITAN|Titan|RTX|GTX|GB|Ada|Generation|Blackwell|Grace|Server|Workstation|Edition|Laptop|GPU|Graphics|Device"
    r"|Max|Q|Ti|SUPER|PCIe|PCIE|NVL|SXM[0-9]?|HBM[0-9]e?|MIG|Orin|Thor|Xavier|Jetson|Spark|AMD|Instinct|Radeon|Pro|Intel"
    r"|[A-Z]{0,2}[0-9]{1,4}[A-Z]{0,2}|[0-9]g\.[0-9]{1,3}gb"
)
_METRIC = re.compile(
    r"[\w /.,()-]{1,80} \[(Throughput %|Avg[\w ]{0,30}|MHz|%)\]|SMs? (Active|Issue)|Tensor Active", re.ASCII
)
_READ = ("NCCL communicator ID", "Message size [bytes]")

# A path under a directory that only file systems have. `/model/layers.0/mlp/MatMul` is a layer, and stays.
_ROOTS = (
    "home|root|usr|opt|tmp|var|mnt|media|srv|etc|proc|sys|run|dev|lib|lib64|bin|sbin|boot|Users|Volumes|work"
    "|workspace|workspaces|scratch|lustre|gpfs|nfs|efs|fsx|shared|data|app|snap|nix|private|code|projects|builds"
)
_PATH_CHARS = r"[^\s\"'`<>|:;,()\[\]{}*?\\/]"
_PATH = re.compile(rf"(?<![\w./])/(?:{_ROOTS})/(?:{_PATH_CHARS}+/)*({_PATH_CHARS}*)")
_ANY_PATH = re.compile(rf"(?<![\w./])/(?:{_PATH_CHARS}+/)+({_PATH_CHARS}*)")
_WINDOWS_PATH = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\(?:[^\\\s\"'<>|:*?]+\\)*([^\\\s\"'<>|:*?]*)")
_HOME = re.compile(rf"(?<![\w./])~[\w.-]*/(?:{_PATH_CHARS}+/)*({_PATH_CHARS}*)")
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'<>]+")
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"  # IPv4, then IPv6: whole, or of a range for networks
    r"|(?<![\w:])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?:::?[0-9a-f]{1,4}){1,7}(?:::)?)(?![\w:])"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # e-mail
    # a host: with an ending that names of modules and layers have not
    r"|(?<![\w.-])(?:[a-zA-Z0-9-]+\.)+(?:com|org|edu|gov|mil|example|internal|intranet|corp|lan|localdomain)(?![\w.-])"
    r"|(?<![\w.-])(?:[a-zA-Z0-9-]+\.){2,}(?:net|io|ai|dev|cloud|local|de|uk|fr|jp|cn|in|eu|us)(?![\w.-])"
)
# Control characters, zero-width and direction-changing ones, line separators, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|SESSION", re.IGNORECASE)
_OWNER_NAME = frozenset({"HOSTNAME", "HOST", "USER", "LOGNAME", "USERNAME", "SUDO_USER", "CONTAINER_NAME"})
_FOLDER_NAME = frozenset({"HOME", "PWD", "OLDPWD"})
_TOO_COMMON = frozenset({
    "root", "user", "users", "localhost", "ubuntu", "admin", "nvidia", "python", "python3", "node", "host", "main", "test", "local", "default",
    "worker", "server", "docker", "true", "false", "none", "cuda", "torch", "tensorrt", "linux", "debian", "centos", "kernel",
})  # fmt: skip


def record_kept(name: str, value: str) -> bool:
    """Whether a record of the capture or the machine stays."""
    allowed = _RECORDS.get(_PROCESS.sub("", name))
    return allowed is not None and re.fullmatch(allowed, value) is not None


def gpu_name(text: str) -> str:
    """The name of a GPU without words that no GPU's name holds."""
    return re.sub(r"[^\s/-]+", lambda word: word[0] if _GPU_WORD.fullmatch(word[0]) else REMOVED, text)


def metric_name(text: str) -> str | None:
    """The name of a GPU metric, None where it is called like none."""
    return text if _METRIC.fullmatch(text) else None


def payload(text: str) -> str | None:
    """Of a payload of NVTX in JSON what is read: how much a collective moved, and in which communicator. None where it says neither."""
    try:
        said = dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    kept = {name: said[name] for name in _READ if type(said.get(name)) is int}
    return json.dumps(kept) if kept else None


def number(value: object, kind: str) -> int | float | None:
    """A value of a column of numbers, as SQLite holds it in one of its type; None where it is none."""
    try:
        found = float(value) if kind == "DOUBLE" or isinstance(value, float) else int(value)  # type: ignore[arg-type, call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    if kind == "BIGINT" and found == found // 1 and abs(found) < 2**63:
        return int(found)
    return found if isinstance(found, float) and found == found else None


class Cleaner:
    """Cleans text of paths, control characters, and what the capture says about its machine and owner.

    `records` are the (name, value) pairs of the file's metadata and system tables, before they are dropped.
    """

    def __init__(self, records: Iterable[tuple[str, str]] = ()) -> None:
        self._words: set[str] = set()
        self._folders: set[str] = set()
        for name, value in records:
            self._learn(name.rpartition(":")[2], value)
        words = sorted(self._words, key=lambda word: (-len(word), word))
        either = "|".join(map(re.escape, words))
        self._owners = re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])") if words else None
        self._known: dict[tuple[str, bool], str] = {}

    def _learn(self, name: str, value: str) -> None:
        if name in ("ENVIRONMENT_VARIABLE", "DeviceEnvironment"):
            for pair in value.split(";") if name == "DeviceEnvironment" else [value]:
                variable, _, content = pair.partition("=")
                variable, content = variable.strip(), content.strip().strip('"')
                if variable in _OWNER_NAME:
                    self._owner(content)
                elif variable in _FOLDER_NAME:
                    self._folder(content)
                elif _SECRET_NAME.search(variable) and len(content) >= 8 and "/" not in content:
                    self._words.add(content)
        elif name in ("Hostname", "EXPORT_HOST", "EXPORT_USER", "USER_NAME", "DEVICE_DISPLAY_NAME"):
            self._owner(value)
        elif name == "WORKING_DIR":
            self._folder(value)

    def _owner(self, word: str) -> None:
        if len(word) >= 4 and word.lower() not in _TOO_COMMON and not word.startswith("<"):
            self._words.add(word)

    def _folder(self, folder: str) -> None:
        folder = folder.rstrip("/")
        if folder.count("/") >= 1 and len(folder) >= 5:
            self._folders.add(folder + "/")

    def clean(self, text: str, *, path: bool = False) -> str:
        """The text as it may be published; `path`: it is about files: every absolute path goes."""
        key = (text, path)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 200_000:
                self._known.clear()
            known = self._known[key] = self._clean(text, path)
        return known

    def _clean(self, text: str, path: bool) -> str:
        if "/" in text or "\\" in text:
            for folder in sorted(self._folders, key=lambda folder: (-len(folder), folder)):
                text = text.replace(folder, "")
            text = _URL.sub(REMOVED, text)
            text = _WINDOWS_PATH.sub(r"\1", text)
            text = _HOME.sub(r"\1", text)
            text = (_ANY_PATH if path else _PATH).sub(r"\1", text)
        if "." in text or ":" in text:
            text = _ADDRESS.sub(REMOVED, text)
        if self._owners is not None:
            text = self._owners.sub(REMOVED, text)
        return _UNSEEN.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
