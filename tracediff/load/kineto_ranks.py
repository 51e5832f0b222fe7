"""Which torch.profiler traces of a folder are ranks of one run: their names rarely say so, their heads do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracediff.errors import TracediffError


def rank_of(path: Path) -> int | None:
    """The rank that a trace says it is of (`distributedInfo`); None where it does not, or is alone."""
    from tracediff.load.kineto_json import peek

    said = (peek(path) or {}).get("distributedInfo")
    if not isinstance(said, dict):
        return None
    rank, size = said.get("rank"), said.get("world_size")
    return rank if isinstance(rank, int) and isinstance(size, int) and size > 1 else None


def one_run(groups: Sequence[Sequence[Path]]) -> list[Path] | None:
    """All files in the order of ranks, where they are one trace a rank of one run; None: the groups stand.

    `groups`: the runs that the names of the files tell. Raises `TracediffError`: ranks-unclear.
    """
    if len(groups) < 2 or any(len(group) > 1 for group in groups):
        return None
    ranks = {path: rank_of(path) for (path,) in groups}
    known = [rank for rank in ranks.values() if rank is not None]
    if len(set(known)) < 2:
        return None  # repeats of one rank, or of programs without ranks
    if len(set(known)) < len(ranks):
        raise TracediffError(
            "ranks-unclear",
            f"{groups[0][0].parent.name}: {len(ranks)} traces of {len(set(known))} ranks: which belong to one run is"
            " not told",
            fix="a folder for each run, or names that differ within a run in rank<N> only",
        )
    return sorted(ranks, key=lambda path: (ranks[path] or 0, path.name))
