"""The one colour that each category has everywhere, and the inks of figures and pages."""

from __future__ import annotations

from tracediff.model import CATEGORIES
from tracediff.report.causes import CAUSES, CauseWords

BY_KEY: dict[str, CauseWords] = {key: CAUSES[key] for key in CATEGORIES}

TOTAL_LIGHT, TOTAL_DARK = "#4a525d", "#b3bbc6"
INK_LIGHT, INK_DARK = "#1b1f24", "#e6e8eb"
MUTED_LIGHT, MUTED_DARK = "#5a626d", "#a0a8b3"
RULE_LIGHT, RULE_DARK = "#dfe2e6", "#2f353d"
PAPER_LIGHT, PAPER_DARK = "#ffffff", "#14171b"
# Figures are drawn in the light colours; in the page each becomes a variable, so that they follow the theme.
_VARIABLES: dict[str, tuple[str, str]] = {
    **{f"--cat-{c.key.replace('_', '-')}": (c.light, c.dark) for c in BY_KEY.values()},
    "--total": (TOTAL_LIGHT, TOTAL_DARK),
    "--ink": (INK_LIGHT, INK_DARK),
    "--muted": (MUTED_LIGHT, MUTED_DARK),
    "--rule": (RULE_LIGHT, RULE_DARK),
    "--paper": (PAPER_LIGHT, PAPER_DARK),
}
BY_COLOUR: dict[str, str] = {light: name for name, (light, _) in _VARIABLES.items()}
assert len(BY_COLOUR) == len(_VARIABLES), "every figure colour must be distinct"


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
    light = "".join(f"{name}:{pair[0]};" for name, pair in _VARIABLES.items())
    dark = "".join(f"{name}:{pair[1]};" for name, pair in _VARIABLES.items())
    preferred = f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
    return f":root{{{light}}}\n{preferred}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}"
