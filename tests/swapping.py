"""What a result becomes when its sides are exchanged, and what a comparison with itself may show."""

from __future__ import annotations

import msgspec

SWAPPED = {
    "baseline": "candidate", "improved": "regressed", "likely_improved": "likely_regressed",
    "kernel_fused": "kernel_split", "kernel_added": "kernel_removed", "fused": "split", "added": "removed",
}  # fmt: skip
SWAPPED |= {other: one for one, other in SWAPPED.items()}


def plain(value):
    """Dicts and lists of a result or a part of it."""
    return msgspec.to_builtins(value)


# Sentences, what is relative to the baseline, and queries of one moment, which is the candidate's where it has one.
TEXTS = (
    "sql",
    "query",
    "title",
    "text",
    "what",
    "why",
    "counts",
    "note",
    "next",
    "message",
    "power_note",
    "verdict_reason",
    "runs_advised",
)
_SIGNED_DICTS = (
    "delta",
    "ci_low",
    "ci_high",
    "host_speed",
    "of",
)  # of the accounting: category -> ns; of a part: kernel -> ns


def swapped(value, name: str = ""):
    """The part of a result as it must be with the sides exchanged.

    Knows names of fields only: `*baseline*` <-> `*candidate*`, `delta*`, `ci_low` <-> `ci_high` negated.
    """
    if isinstance(value, dict):
        if name in _SIGNED_DICTS:
            return {key: -one for key, one in value.items()}
        return {_partner(key): swapped(one, _partner(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [swapped(one, name) for one in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name == "host_speed":  # a ratio
            return 1 / value
        return -value if _signed(name) else value
    if isinstance(value, str) and name in ("side", "verdict", "cause", "match"):
        return SWAPPED.get(value, value)
    return value


def _signed(name: str) -> bool:
    return (
        name.startswith(("delta", "ci_"))
        or name.endswith("delta_ns")
        or name in ("batch_mix_ns", "first_uses_ns", "speed_ns", "host_speed_ns", "carried_ns", "outlier")
    )


def _partner(key: str) -> str:
    for one, other in (
        ("baseline", "candidate"),
        ("candidate", "baseline"),
        ("low", "high"),
        ("high", "low"),
    ):
        if one in ("low", "high") and not key.startswith("ci_"):
            continue
        if one in key:
            return key.replace(one, other)
    return key


def close(one, other, tolerance: float = 1e-6, path: str = "") -> list[str]:
    """Where two plain structures differ by more than a relative tolerance; empty where they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return [f"{path}: {sorted(map(str, one.keys() ^ other.keys()))}"]
        return [text for key in one for text in close(one[key], other[key], tolerance, f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return [f"{path}: {len(one)} rows and {len(other)}"]
        return [
            text
            for number, (a, b) in enumerate(zip(one, other, strict=True))
            for text in close(a, b, tolerance, f"{path}[{number}]")
        ]
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        same = abs(one - other) <= tolerance * max(abs(one), abs(other), 1.0)
        return [] if same else [f"{path}: {one} and {other}"]
    return [] if one == other else [f"{path}: {one!r} and {other!r}"]


def signed_fields(value, path: str = "") -> dict[str, float]:
    """Every delta and bound of an interval in a plain structure, by its path."""
    found: dict[str, float] = {}
    if isinstance(value, dict):
        for key, one in value.items():
            if isinstance(one, (int, float)) and (
                _signed(key) or path.endswith((".delta", ".ci_low", ".ci_high"))
            ):
                found[f"{path}.{key}"] = one
            found |= signed_fields(one, f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            found |= signed_fields(one, f"{path}[{number}]")
    return found
