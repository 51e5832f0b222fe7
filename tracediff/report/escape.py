"""Names in a trace are not ours: what makes them harmless in each kind of output.

`neutral` is applied to the whole result before any text output; the escapes for one format follow after it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from tracediff.errors import visible as visible
from tracediff.model import Section

Report = TypeVar("Report", bound=msgspec.Struct)

# fields whose line ends are blanks
_PROSE = frozenset({
    "title", "message", "next", "note", "verdict_reason", "reason", "power_note", "sentence", "text", "what", "why", "counts",
})  # fmt: skip


def _walk(value: Any, field: str) -> Any:
    if isinstance(value, str):
        if field in ("sql", "query"):
            return visible(value, keep="\n\t")
        return visible(" ".join(value.splitlines()) if field in _PROSE else value)
    if isinstance(value, list | tuple):
        return [_walk(item, field) for item in value]
    if isinstance(value, dict):
        return {visible(str(key)): _walk(item, str(key)) for key, item in value.items()}
    return value


def neutral(result: Report) -> Report:
    """Return the same report without control or invisible characters; SQL keeps its line breaks."""
    changed = {}
    for one in msgspec.structs.fields(type(result)):
        value = getattr(result, one.name)
        with suppress(UnicodeEncodeError):  # half a character
            text = "" if value is msgspec.UNSET else msgspec.json.encode(value).decode()
            if "\\" not in text and visible(text) == text:
                continue  # nearly every field: JSON escapes what ends a line
        # A result of the core knows the sections of companions as `Section` alone.
        kind = type(value) if isinstance(value, Section) else one.type
        changed[one.name] = msgspec.convert(_walk(msgspec.to_builtins(value), one.name), kind)
    return msgspec.structs.replace(result, **changed)


def shorten(text: str, width: int) -> str:
    """Cut the text in its middle to at most `width` characters: both ends of a kernel name tell it apart."""
    if len(text) <= width:
        return text
    if width < 5:
        return text[:width]
    head = (width - 1) * 2 // 3
    return f"{text[:head]}\u2026{text[len(text) - (width - 1 - head) :]}"


class Markdown(str):
    """Text that is Markdown already. Every other string a Markdown template prints is escaped."""

    __slots__ = ()


_PUNCTUATION = re.compile(r"([\\`*\[\]<|~&$]|(?<=--)>)")
# An underscore ends emphasis only at the end of a word: without such a one `_schedule` and `a_b` stay as they are, also in an e-mail.
_ENDING = re.compile(r"(?:^|\S)_+(?:\W|$)")
# Would start a list, heading or rule; on GitLab a slash starts a quick action such as /merge.
_LEADING = re.compile(r"[-+=#](?=[\s=#-]|$)|>|/(?=\w)|\d{1,9}(?=[.)](?:\s|$))")
# What stays live in running text, and what is pasted: as a code span it is neither linked nor changed.
_CODE = re.compile(
    r"--[a-z][a-z-]*[ =]'[^'`|]*'"  # an option with its value
    # a user, an issue; on GitLab also a merge request, milestone, label, snippet, epic, alert
    r"|(?<![\w.:/-])[\w.:/-]*+[@#!%~$&^](?=\w)[\w.:/@#!%~$&^-]*\w|\bGH-\d\w*"
    r"|(?i:https?|ftp|mailto|xmpp|www)[:.](?:[^\s`|<>()[\]]*[\w/])?"
    r"|\b[0-9a-f]{7,}\b"  # a commit
)


def markdown_prose(value: object, width: int = 2_000) -> Markdown:
    """Escape running text: no markup, link, mention, reference, HTML or table cell can start in it."""
    text = shorten(visible(" ".join(str(value).split())), width)
    parts = [_escaped(part) for part in _CODE.split(text)]
    leading = _LEADING.match(text)
    if leading and parts[0]:
        at = leading.end() if leading.group()[0].isdigit() else 0
        parts[0] = f"{parts[0][:at]}\\{parts[0][at:]}"
    codes = [f"`{code}`" for code in _CODE.findall(text)]
    return Markdown("".join(part + code for part, code in zip(parts, [*codes, ""], strict=True)))


def _escaped(text: str) -> str:
    text = _PUNCTUATION.sub(r"\\\1", text)
    return text.replace("_", "\\_") if _ENDING.search(text) else text


def markdown_code(value: object, width: int = 160) -> Markdown:
    """Write a name as a code span: markup, mentions and links are dead in it."""
    text = shorten(visible(" ".join(str(value).split()) or " "), width)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return Markdown(f"{fence}{pad}{text}{pad}{fence}")


def markdown_cell(value: object, width: int = 160) -> Markdown:
    """Write a name as a code span inside a table, where a pipe has to be escaped.

    A pipe that follows a backslash, where the two meanings clash, becomes a broken bar.
    """
    code = re.sub(r"(?<=\\)\|", "\u00a6", markdown_code(value, width))
    return Markdown(code.replace("|", "\\|"))


def markdown_figure(text: str) -> Markdown:
    """Write a figure: only digits, signs and units, which cannot start any markup inside a cell."""
    return Markdown(re.sub(r"([<~])", r"\\\1", text))


def markdown_block(text: str, language: str = "text") -> Markdown:
    """Write a fenced block that its content cannot close."""
    text = visible(text, keep="\n\t")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return Markdown(f"{fence}{language}\n{text}\n{fence}")
