"""Which exports of a side are read, what number their ranks have, and what a result says of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracediff.errors import TracediffError, visible
from tracediff.formats.inputs import RunFiles, SideFiles
from tracediff.formats.selection import Selection, spell_ranks, spell_steps, spell_window
from tracediff.model import LeftOut, Note

if TYPE_CHECKING:
    from tracediff.accounting.reduction import Reduction
    from tracediff.execution.sides import Run, Side

NAMED = 5  # exports that a warning names; the rest are counted
MOST_NAMED = 20  # the same of an error


@dataclass(frozen=True)
class Part:
    """One export that is read. `place`: which of the run's exports it is; `only`: what of it is measured."""

    path: Path
    place: int
    only: Selection


def parts_of(run: RunFiles, only: Selection) -> list[Part]:
    """The exports of a run that are read: of a run with an export a rank those of the ranks that are asked for."""
    if len(run.files) == 1:
        return [Part(run.files[0], 0, only)]
    ranks = run.ranks or tuple(range(len(run.files)))
    inside = replace(only, ranks=None)
    return [
        Part(path, place, inside)
        for place, (path, rank) in enumerate(zip(run.files, ranks, strict=True))
        if only.has_rank(rank)
    ]


def check_ranks(side: SideFiles) -> None:
    """Raise nothing-selected where a run has none of the ranks that are asked for."""
    for run in side.runs:
        if not parts_of(run, side.only):
            ranks = run.ranks or tuple(range(len(run.files)))
            raise TracediffError(
                "nothing-selected",
                f"{side.label}, run {run.name}: none of its {len(ranks)} ranks is selected",
                fix=f"--ranks: ranks {min(ranks)} to {max(ranks)} are there",
            )


def numbered(files: RunFiles, parts: Sequence[tuple[Part, Reduction]], only: Selection) -> Run:
    """A run of its reductions, each with the number of its first rank.

    Raises `TracediffError`: ranks-unclear, where exports hold several ranks and not all of them were read.
    """
    counts = [part.measured.all_ranks for _, part in parts]
    several = len(files.files) > 1
    cut = several and max(counts) > 1 and len(parts) < len(files.files)
    if cut and (len(set(counts)) > 1 or only.ranks is not None):
        raise TracediffError(
            "ranks-unclear",
            f"{parts[counts.index(max(counts))][0].path.name}: one of several exports of a run, it holds {max(counts)} ranks: which ranks"
            " are in the exports that were not read is not known",
            fix="an export a rank, named rank<N>; or read all of them",
        )
    if several and files.ranks is not None and max(counts) == 1:
        firsts = [files.ranks[part.place] for part, _ in parts]
    elif len(set(counts)) == 1:
        firsts = [part.place * counts[0] for part, _ in parts]
    else:
        firsts = [sum(counts[:place]) for place in range(len(parts))]
    from tracediff.execution.sides import Run  # not before the database reads, as in `run.reduce_file`

    sources = tuple((part.path, part.only) for part, _ in parts)
    unread = len(files.files) - len(parts)
    return Run(files.name, [one for _, one in parts], tuple(firsts), sources, unread, files.traffic)


def notes_of(side: SideFiles, runs: Sequence[Run], failed: Sequence[LeftOut]) -> list[Note]:
    """What a result must say of a side that was not measured whole."""
    notes = list(side.notes)
    only = side.only
    parts = [part for run in runs for part in run.parts]
    ranks = sum(part.measured.ranks for part in parts)
    unread = sum(len(run.files) - len(parts_of(run, only)) for run in side.runs)
    all_ranks = sum(part.measured.all_ranks for part in parts) + unread
    if only.ranks is not None and ranks < all_ranks:
        notes.append(
            Note("ranks-left-out", f"{side.label}: {all_ranks - ranks} of {all_ranks} ranks of all runs are left out (--ranks {spell_ranks(only)})")
        )  # fmt: skip
    steps, all_steps = (
        sum(getattr(part.measured, name) for part in parts) for name in ("steps", "all_steps")
    )
    if only.cuts_steps and steps < all_steps:
        options = (("--steps", spell_steps(only)), ("--window", spell_window(only)))
        spelled = " ".join(f"{option} {text}" for option, text in options if text)
        of = " of the ranks kept" if only.ranks is not None else ""
        notes.append(
            Note("steps-left-out", f"{side.label}: {all_steps - steps} of {all_steps} whole steps{of} are left out ({spelled});"
                 " every figure is of the steps kept")
        )  # fmt: skip
    if failed:
        named = "; ".join(f"{one.name}: {one.slug}" for one in failed[:NAMED])
        more = f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        notes.append(
            Note("exports-left-out", f"{side.label}: {len(failed)} of {len(parts) + len(failed)} exports could not be read and are left out"
                 f" ({named}{more})")
        )  # fmt: skip
    return notes


def side_of(
    side: SideFiles,
    outcomes: Sequence[Sequence[tuple[Part, str, Reduction | TracediffError]]],
    notes: Sequence[Note],
) -> Side:
    """A side of what could be read of it; `outcomes`: of each run its exports, what messages call them, what came of them.

    Raises the errors in one where nothing could be read, ranks-unclear.
    """
    from tracediff.execution.sides import Side

    runs, errors = [], []
    for files, parts in zip(side.runs, outcomes, strict=True):
        errors += [(name, one) for _, name, one in parts if isinstance(one, TracediffError)]
        if good := [(part, one) for part, _, one in parts if not isinstance(one, TracediffError)]:
            runs.append(numbered(files, good, side.only))
    if not runs:
        raise one_error(errors, len(errors))
    # visible: a name that is not UTF-8 is no text of JSON
    left_out = [
        LeftOut(visible(name), error.slug, visible(error.message, keep="\n")) for name, error in errors
    ]
    return Side(side.label, runs, (*notes, *notes_of(side, runs, left_out)), tuple(left_out))


def one_error(errors: Sequence[tuple[str, TracediffError]], exports: int) -> TracediffError:
    """Say in one error which exports could not be read; `errors`: name and error of each, at least one."""
    first = errors[0][1]
    if len(errors) == 1:
        return first
    fix = "read what is there without them: --skip-unreadable"
    if len({error.slug for _, error in errors}) == 1:
        also = ", ".join(name for name, _ in errors[1 : MOST_NAMED + 1])
        more = f" and {len(errors) - 1 - MOST_NAMED} more" if len(errors) - 1 > MOST_NAMED else ""
        message = f"{first.message}; the same of {also}{more} ({len(errors)} of {exports} exports)"
        # where nothing would be left, leaving out is no help
        said = [one for one in (first.fix, fix if len(errors) < exports else None) if one]
        return TracediffError(first.slug, message, fix="; ".join(said) or None, exit_code=first.exit_code)
    lines = [f"{error.message} [{error.slug}]" for _, error in errors[:MOST_NAMED]]
    lines += [f"and {len(errors) - MOST_NAMED} more"] if len(errors) > MOST_NAMED else []
    return TracediffError(
        "exports-unreadable",
        f"{len(errors)} of {exports} exports cannot be read:" + "".join(f"\n    {line}" for line in lines),
        fix=fix if len(errors) < exports else "mend or replace them",
    )
