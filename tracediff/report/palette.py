"""The one colour that each category has everywhere, the inks of figures and pages, and how faint is what gives way."""

from __future__ import annotations

from tracediff.model import CATEGORIES
from tracediff.report.causes import CAUSES, CauseWords

BY_KEY: dict[str, CauseWords] = {key: CAUSES[key] for key in CATEGORIES}


def variable(key: str) -> str:
    """The colour of a category as a variable of the page; one that this version does not know has that of no cause."""
    known = key if key in BY_KEY else "unattributed"
    return "--cat-" + known.replace("_", "-")


_COLOURS: dict[str, tuple[str, str]] = {
    **{variable(c.key): (c.light, c.dark) for c in BY_KEY.values()},
    "--total": ("#4a525d", "#b3bbc6"),
    "--ink": ("#1b1f24", "#e6e8eb"),
    "--muted": ("#5a626d", "#a0a8b3"),
    "--rule": ("#dfe2e6", "#2f353d"),
    "--paper": ("#ffffff", "#14171b"),
    "--slower": ("#a8261b", "#ff968a"),
    "--faster": ("#17683a", "#74d39a"),
    "--base-dot": ("#55708f", "#8fb0d6"),
    "--cand-dot": ("#b0622a", "#e39a62"),
    "--bits-32": ("#7b899c", "#8b98ab"),
    "--bits-16": ("#3f78b5", "#6aa5e6"),
    "--bits-8": ("#2a9d8f", "#52c4b5"),
    "--bits-4": ("#b98d14", "#e0bb4e"),
    "--pale": ("0.55", "0.8"),  # opacity; on a dark ground every category has a contrast of 3 with it
    "--reformat": ("#b8487a", "#e889ad"),
}
LIGHT: dict[str, str] = {name: light for name, (light, _) in _COLOURS.items()}


def category(key: str) -> CauseWords:
    """Return how a category is shown; one this version does not know is shown by its own name, in grey."""
    if key in BY_KEY:
        return BY_KEY[key]
    name = key.replace("_", " ")
    return CauseWords(key, name, name, "unknown", BY_KEY["unattributed"].light)


def order(keys: set[str]) -> list[str]:
    """Return the known categories in their fixed order, then unknown ones by name."""
    return [*CATEGORIES, *sorted(keys - set(CATEGORIES))]


def stylesheet() -> str:
    """Return the variables as CSS: light, dark by preference, and both forced by `data-theme`."""
    light = "".join(f"{name}:{pair[0]};" for name, pair in _COLOURS.items())
    dark = "".join(f"{name}:{pair[1]};" for name, pair in _COLOURS.items())
    preferred = f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
    return f":root{{{light}}}\n{preferred}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}"
