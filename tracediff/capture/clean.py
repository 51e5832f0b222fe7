"""What a scrubbed export may still say: allow-lists of tables, records and arguments; the cleaning of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

REMOVED = "<removed>"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tables of nsys exports, by family. Anything else in the file was put there by somebody else.
_FAMILY = re.compile(
    r"(CUPTI_ACTIVITY_KIND_|CUDA_|NVTX_|ENUM_|TARGET_INFO_|OSRT_|GPU_|MPI_|NCCL_|NVSHMEM_|OPENSHMEM_|UCP_|NET_|NIC_"
    r"|IB_|OPENMP_|OPENACC_|OPENGL_|KHR_|VULKAN_|D3D1[12]_|DX1[12]_|WDDM_|ETW_|SLI_|NVVIDEO_|PERF_EVENT_"
    r"|UNCORE_PMU_|NV_LOAD_BALANCE_|FECS_|XMC_|SOC_|VIDEO_|GENERIC_EVENTS?|SYSCALL)\w*"
)
_ALONE = _words(
    """
    StringIds ThreadNames PROCESSES ProcessStreams PROFILER_OVERHEAD ANALYSIS_DETAILS DIAGNOSTIC_EVENT
    META_DATA_CAPTURE META_DATA_EXPORT EXPORT_META_DATA SCHED_EVENTS COMPOSITE_EVENTS SAMPLING_CALLCHAINS
    CUBLAS_EVENTS CUDNN_EVENTS MEMORY_TRANSFER_EVENTS DEMOTED_BYTES_EVENTS TOTAL_BYTES_RESIDENT_IN_SEGMENT_EVENTS
    """
)
# A name that begins like theirs may still be another's: each word between underscores is one that nsys uses.
_TABLE_WORDS = _words(
    """
    ACCESS ACTIVITY ALLOCATION API BALANCE BATCHED BUDGET BYTES CACHE CALLCHAINS CATEGORIES CLASS CLIENT CMD COLLECTIVES COMM
    COMMUNICATORS CONFIG CONGESTION CONTEXT CONTEXTS CORE CORRELATION COUNTER COUNTERS CPU CREATION CTX CUDA CUPTI D3D11 D3D12 DATA
    DEBUG DECODER DEPRECATED DEV DEVICE DEVICES DISPATCH DMA DOMAINS DRIVER DX11 DX12 DXGI ENCODER ENGINE ENTRIES ENTRY ENUM ENUMS
    ENV ETW EVENT EVENTS EVICT EXTENDED EXTERNAL FAULT FECS FIELDS FILE FLAG FLAGS FORMAT FUNC GENERIC GPU GRAPH HEAP HW IB ID INFO
    INTERFACE INTERRUPT JPEG KERNEL KHR KIND LAUNCH LIMIT LINK LIST LOAD MAP MARKER MASTER MEM MEMCPY MEMCPY2 MEMORY MEMORY2 MEMPOOL
    MEMSET METHOD METRIC METRICS MIGRATION MISC MODE MPI MUTEX NAME NAMES NCCL NET NETWORK NIC NODE NODES NSYS NV NVDRIVER NVSHMEM
    NVTX NVVIDEO OPENACC OPENGL OPENMP OPENSHMEM OP OPER OPERATION OPERATIONS OSRT OTHER OVERHEAD P2P PACKET PAGE PAGING PARAMS PAYLOAD
    PERF PERSISTENT PIPELINE PIX PMU POOL PROCESS PROCESSES PROGRESS PROPERTY PROVIDERS QUERIES QUEUE RANGE RANGES RANKS RAW REGION
    REQUEST REQUESTS RMA RUNTIME SAMPLING SCHEMA SCHEMAS SCOPES SEMANTICS SESSION SEVERITY SHARED SLI SOC SOCKET SOURCE SOURCES SPEC
    STACK STAGE START STATE STATS STATUS STOP STREAM STREAMS SUBMIT SWITCH SYNC SYNCHRONIZATION SYSCALL SYSTEM TABLE TARGET TASK TASKS
    THREAD THREADS TIME TOPOLOGY TRACE TRANSER TRANSFER TYPE TYPES UCP UM UNCORE UNIF UNIFIED UNIT UNWIND USAGE VALUES VENDOR VIDEO
    VIDMM VULKAN WAIT WDDM WORK WORKERS WORKLOAD XMC
    """
)
# The same of a column: each word of it.
_COLUMN_WORDS = _words(
    """
    address align array async bandwidth binary block blocks bus bytes cache callchain category cause channel chip class client clock
    cluster code color comm comment compute config constant content context copy correlation count counter cpu ctrl ctxsw cu cuda data
    demangled deprecated depth description detail dev device dim direction discrete domain double dst duration dynamic end engine engines
    entries entry enum epoch error etw event exec executed external fault field file filename filter flag flags float format ftrace
    function global gpu graph green grid group guid handle hardware high hw hyper id idx imported in index info instance int interval
    ip ipc is json kernel kind l label launch length level limit local location low luid macro major mangled map mask max mem member members
    memory message method metric migration minor mode module name nesting nic node ns null num offset op operation optin or ordered
    original parent path payload pc per pid policy pool port prefix priority process processor provider pw queue range rank rate raw
    percentage potential preexit qmd reason recv register registers release remote request requested return revision root sample sched schema send severity shared shmem
    short size sm source special src stack start state static status stop stream string struct submit suffix switch symbol sync tag task
    active bulk clusters cta done last multiprocessors num scheduling team text thread threads threshold thumb tid time timestamp to total trace type uid uint union unresolved unwind usage user utc
    utilized uuid value values version vid virtual vm wait warp warps window work x y z
    """
)
_COLUMN_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d{1,3}(?!\d)")
METADATA = frozenset({"META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA"})
SYSTEM_ENV = "TARGET_INFO_SYSTEM_ENV"
NAMES_OF_PROCESSES = frozenset({"PROCESSES", "ThreadNames"})
EMPTIED = frozenset({"ProcessStreams"})
"""Standard output and error of the traced processes."""

# Columns that hold an id of StringIds, where the CREATE TABLE does not say so in a comment.
_STRING_COLUMN = re.compile(
    r"(?i)(\w*(name|text|file|filename|module|symbol|message|string|label|function|content|description)id"
    r"|shortname|demangledname|mangledname|symbol|module)"
)
STRING_REFERENCE = re.compile(r"^\s*\"?(\w+)\"?\s.*--.*REFERENCES\s+StringIds\s*\(", re.IGNORECASE)
_FILE_COLUMN = re.compile(r"(?i)(module|moduleid|\w*file(name)?id)")

_PRIVATE_COLUMNS = frozenset({"uuid", "luid", "guid", "ctxswdevpath", "ctrldevpath", "localtime", "hostname"})

_CAPTURE_RECORDS = re.compile(
    r"CAPTURE_EVENT_TYPE|RATE_HZ|(START|STOP)_TRIGGER|(THREAD_STATE|POWER_RATE)_SCAN_FREQ|DEVICE_TYPE|RESUME"
    r"|SHOW_BACKTRACE|START_DELAY_MS|RUN_DURATION_(MS|FRAMES)|HAS_ANNOTATIONS|USE_\w+|BANDWIDTH_\w+|COLLECT_\w+"
    r"|TRACE_\w+|SAMPLE_\w+|SAMPLING_\w+|IN_APP_FREQ_MODE|ALLOW_SEND_ONLY_MODE|FORCE_ARCH_TIMER|INCLUDE_CHILDREN"
    r"|DISABLE_TIME_SYNC|LAUNCH_AS_ROOT|START_FRAME_VALUE|CUDA_\w+|CUDA_\w+:\w+|PYTHON_\w+|GPU_METRICS_\w+"
    r"|NVTX_OPTIONS:NVTX_DOMAIN_FILTER_MODE_INCLUDE|SYMBOL_RESOLUTION_OPTIONS:RESOLVE_SYMBOLS"
    r"|PROCESS_\d+:(HOW_TO_ATTACH|LAUNCH_AS_ROOT|COLLECT_\w+|CUDA_\w+|CUDA_\w+:\w+|PYTHON_\w+|NVTX_\w+)"
)
_EXPORT_RECORDS = re.compile(
    r"EXPORT_PRODUCT_\w+|EXPORT_SCHEMA_\w+|EXPORT_PLATFORM|EXPORT_ARCH|EXPORT_CONFIG_TIME_SHIFT"
    r"|EXPORT_PARAM_(OVERWRITE|APPEND|LAZY|TIME_NORMALIZE|TIME_SHIFT)"
)
_SYSTEM_RECORDS = _words(
    """
    CpuCores CpuSpeedMhz CpuArchitecture CpuDescription NvDriverVersion CudaDriverVersion HardwarePlatform
    OsDescription SupportsGpuMetrics
    """
)
_PLAIN_VALUE = re.compile(r"[\w .,:+()%@-]{0,80}", re.ASCII)
_COMMAND = re.compile(r"PROCESS_\d+:COMMAND")
_ARGUMENT = re.compile(r"PROCESS_\d+:ARGUMENT_(\d+)")

_PROGRAMS = re.compile(r"python(\d(\.\d+)?)?|trtllm-(bench|serve|llmapi-launch)|mpirun|srun|nsys|bash|sh|env")
_ARGUMENT_WORDS = _words(
    """
    -m throughput latency serve pytorch tensorrt tracediff_emulator tracediff.capture.workloads.mini_serve --streaming
    _fetch_new_requests _schedule _prepare_inputs _sample_async _update_requests _handle_responses none
    exposed hidden silu functor attention --graph --eager --piecewise --dry-run --cpu --fuse-gate-up
    --split-kernel --label-layers --sync-per-layer --h2d-overlap
    """
)
_NUMBER_OPTIONS = _words(
    """
    --concurrency --num_requests --warmup --max_batch_size --max_num_tokens --max_seq_len --iterations
    --kv_cache_free_gpu_memory_fraction --tp --pp --ep --tp_size --pp_size --ep_size --steps --layers --hidden
    --slots --context --arrival-every --seed --label-generation --dry-gpu-us --work-us --sleep-us --gc-every
    --gc-objects --gil-hog-us --other-thread-work-us --straggler-us --straggler-rank --slow-kernel
    --more-kernels --h2d-bytes --alloc-bytes
    """
)
_WORD_OPTIONS = frozenset(
    {"--backend", "--work-in", "--sleep-in", "--gc-in", "--gil-hog-when", "--replace-kernel"}
)
_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,6})?")

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
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
# Control characters, zero-width and direction-changing ones, line separators, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|SESSION", re.IGNORECASE)
_OWNER_NAME = frozenset({"HOSTNAME", "HOST", "USER", "LOGNAME", "USERNAME", "SUDO_USER", "CONTAINER_NAME"})
_FOLDER_NAME = frozenset({"HOME", "PWD", "OLDPWD"})
_TOO_COMMON = _words(
    """
    root user users localhost ubuntu admin nvidia python python3 node host main test local default worker
    server docker true false none cuda torch tensorrt linux debian centos kernel
    """
)


def known_table(name: str) -> bool:
    """Whether nsys writes a table of this name."""
    return name in _ALONE or (
        _FAMILY.fullmatch(name) is not None and all(word in _TABLE_WORDS for word in name.split("_"))
    )


def known_column(name: str) -> bool:
    """Whether nsys may have a column of this name."""
    words = _COLUMN_WORD.findall(name)
    return "".join(words) == name.replace("_", "") and all(
        word.isdigit() or word.lower() in _COLUMN_WORDS for word in words
    )


def string_column(column: str) -> bool:
    """Whether a column of this name holds ids of StringIds."""
    return _STRING_COLUMN.fullmatch(column) is not None


def file_column(column: str) -> bool:
    """Whether the strings that such a column refers to are paths."""
    return _FILE_COLUMN.fullmatch(column) is not None


def private_column(table: str, column: str) -> bool:
    """Whether a column of a description of the target is blanked."""
    return table.startswith("TARGET_INFO_") and column.lower() in _PRIVATE_COLUMNS


def system_record(name: str, value: str) -> bool:
    """Whether a record of TARGET_INFO_SYSTEM_ENV is kept."""
    return name in _SYSTEM_RECORDS and _PLAIN_VALUE.fullmatch(value) is not None


class MetadataFilter:
    """Goes through the records of one metadata table in order; an option's value follows its option."""

    def __init__(self) -> None:
        self._value: Callable[[str], bool] | None = None  # whether the next argument may stay as a value

    def value(self, name: str, value: str | None) -> str | None:
        """The value to keep. Raises `KeyError` for a record that is dropped."""
        text = value or ""
        argument = _ARGUMENT.fullmatch(name)
        if argument:
            return self._argument(text, first=argument[1] == "0")
        self._value = None
        if _COMMAND.fullmatch(name):
            base = re.split(r"[\\/]", text)[-1]
            return base if _PROGRAMS.fullmatch(base) else REMOVED
        allowed = _CAPTURE_RECORDS.fullmatch(name) or _EXPORT_RECORDS.fullmatch(name)
        if not allowed or not _PLAIN_VALUE.fullmatch(text):
            raise KeyError(name)
        return value

    def _argument(self, text: str, *, first: bool) -> str:
        expected, self._value = (None if first else self._value), None
        option, sign, given = text.partition("=")
        known = _may_be_value(option)
        if sign and known:
            return text if known(given) else f"{option}={REMOVED}"
        if known:
            self._value = known
            return text
        if expected is _is_number:
            return text if _is_number(text) else REMOVED
        return text if text in _ARGUMENT_WORDS or _PROGRAMS.fullmatch(text) else REMOVED


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _may_be_value(option: str) -> Callable[[str], bool] | None:
    """What a value of an option must be to stay; None of an option that is not known."""
    if option in _NUMBER_OPTIONS:
        return _is_number
    return _ARGUMENT_WORDS.__contains__ if option in _WORD_OPTIONS else None


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
        if "." in text:
            text = _ADDRESS.sub(REMOVED, text)
        if self._owners is not None:
            text = self._owners.sub(REMOVED, text)
        return _UNSEEN.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
