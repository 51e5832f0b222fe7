"""Categories as people read them: label, group, meaning, and the one colour each has everywhere.

Four hues, one a group, in three shades each: GPU busy (blue, of which moving data is violet), GPU waiting on the
device, GPU waiting for CUDA calls, GPU waiting for Python. Shades of a group differ in lightness, for who cannot tell hues.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracediff.model import CATEGORIES


@dataclass(frozen=True)
class Category:
    """How one category of the accounting is shown."""

    key: str
    label: str
    group: str
    light: str
    dark: str
    meaning: str


_BUSY, _DEVICE, _CALLS, _HOST = "GPU busy", "GPU waits: device", "GPU waits: CUDA calls", "GPU waits: host"
_ALL = (
    Category("compute", "compute", _BUSY, "#27548f", "#7fb0ee",
             "A compute kernel was running."),
    Category("comm", "exposed comm", _BUSY, "#2f2a75", "#cdc9fb",
             "Only communication kernels (NCCL, all-reduce) were running."),
    Category("memcpy", "exposed copies", _BUSY, "#a496cf", "#7f73ad",
             "Only copies or memory sets were running."),
    Category("launch_latency", "launch latency", _DEVICE, "#1c6e6a", "#6cc4bd",
             "The launch had returned, nothing else was in the way, and the op had not started."),
    Category("dependency", "dependency", _DEVICE, "#45958f", "#499f98",
             "The op had been launched; it waited for another stream, event, device or rank."),
    Category("graph_internal", "inside graphs", _DEVICE, "#7bb3ae", "#347670",
             "Between two nodes of one graph launch."),
    Category("launch_api", "launch calls", _CALLS, "#8f5b0c", "#e3b463",
             "The host was inside the launching call."),
    Category("host_sync", "sync calls", _CALLS, "#b57f2e", "#bd8b3c",
             "The host was inside a synchronising call that outlasted the GPU's work."),
    Category("host_api", "other CUDA calls", _CALLS, "#cfa460", "#8d672a",
             "The host was inside another CUDA call: allocation, event, query."),
    Category("gc", "Python GC", _HOST, "#74264e", "#e58fb6",
             "The launching thread was in a garbage-collection pause."),
    Category("gil_wait", "GIL wait", _HOST, "#a04b77", "#bd6892",
             "The launching thread was waiting for the GIL."),
    Category("host_work", "host work", _HOST, "#c383a3", "#8b4a6a",
             "The launching thread was doing anything else, named by its innermost range."),
    Category("unattributed", "unattributed", "unknown", "#858c96", "#7c848f",
             "No launch row, or that kind of trace was not captured."),
)  # fmt: skip
BY_KEY: dict[str, Category] = {category.key: category for category in _ALL}
assert tuple(BY_KEY) == CATEGORIES

TOTAL_LIGHT, TOTAL_DARK = "#4a525d", "#b3bbc6"
INK_LIGHT, INK_DARK = "#1b1f24", "#e6e8eb"
MUTED_LIGHT, MUTED_DARK = "#5a626d", "#a0a8b3"
RULE_LIGHT, RULE_DARK = "#dfe2e6", "#2f353d"
PAPER_LIGHT, PAPER_DARK = "#ffffff", "#14171b"
# Figures are drawn in the light colours; in the page each becomes a variable, so that they follow the theme.
_VARIABLES: dict[str, tuple[str, str]] = {
    **{f"--cat-{c.key.replace('_', '-')}": (c.light, c.dark) for c in _ALL},
    "--total": (TOTAL_LIGHT, TOTAL_DARK),
    "--ink": (INK_LIGHT, INK_DARK),
    "--muted": (MUTED_LIGHT, MUTED_DARK),
    "--rule": (RULE_LIGHT, RULE_DARK),
    "--paper": (PAPER_LIGHT, PAPER_DARK),
}
BY_COLOUR: dict[str, str] = {light: name for name, (light, _) in _VARIABLES.items()}
assert len(BY_COLOUR) == len(_VARIABLES), "every figure colour must be distinct"


def category(key: str) -> Category:
    """Return how a category is shown; one this version does not know is shown by its own name, in grey."""
    known = BY_KEY.get(key)
    if known:
        return known
    return Category(key, key.replace("_", " "), "unknown", BY_KEY["unattributed"].light, "", "")


def order(keys: set[str]) -> list[str]:
    """Return the known categories in their fixed order, then unknown ones by name."""
    return [*CATEGORIES, *sorted(keys - set(CATEGORIES))]


def stylesheet() -> str:
    """Return the variables as CSS: light, dark by preference, and both forced by `data-theme`."""
    light = "".join(f"{name}:{pair[0]};" for name, pair in _VARIABLES.items())
    dark = "".join(f"{name}:{pair[1]};" for name, pair in _VARIABLES.items())
    preferred = f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
    return f":root{{{light}}}\n{preferred}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}"
