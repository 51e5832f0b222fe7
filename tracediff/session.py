"""From a request to its result: the one place that knows both the core and what stands beside it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracediff.errors import TracediffError, UsageError
from tracediff.execution.run import reduce_sides
from tracediff.formats.bundle import SIDES, BundleRun, SideName, in_turns, recorded
from tracediff.formats.inputs import SideFiles, resolve, resolve_pair
from tracediff.formats.selection import Selection
from tracediff.model import Note
from tracediff.request import BisectRequest, CompareRequest, ShowRequest, WhatIfRequest, paths, word

if TYPE_CHECKING:
    from tracediff.bisect.probe import Watch
    from tracediff.companions.model import Result
    from tracediff.comparison.measures import Measure
    from tracediff.history.analysis import Commits
    from tracediff.history.model import History
    from tracediff.model.bisect import Bisect
    from tracediff.model.result import WhatIf
    from tracediff.model.show import Show


def compare_request(
    request: CompareRequest,
    *,
    keep: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Result:
    """Find the files, read them, compare the sides.

    `keep`: with the events of some steps, to draw. `progress` gets each file's name before it is read, `warn` what was left out.
    Raises `TracediffError`: with-one-side, and those of `companions.files.beside`, the readers of such files, `resolve_pair`, `reduce_sides` and `compare`.
    """
    given = request.given()
    adds = _additions(given)
    words = [os.fspath(one) for one in (request.baseline, request.candidate) if one is not None]
    reading = replace(request.reading(keep=keep), graph="all" if request.what_if else "")
    *files, bundle = resolve_pair(os.fspath(request.baseline), word(request.candidate))
    # of a bundle, what trtexec left in the folders of the runs: its benchmark reports are in the manifest
    known = adds if bundle is None else {*adds, "kpi", "latencies", "ncu"}
    controls = bundle.controls if bundle is not None and "latencies" not in adds else {}
    found, notes = _found(files, words if bundle is None else words[:1] * 2, known, controls)
    files += [resolve(os.fspath(path)) for path in given["noise"]]  # selected as the baseline
    sides = reduce_sides(selected(files, request.selections()), reading, progress, on_started=_ready)
    from tracediff.companions.model import complete
    from tracediff.comparison.compare import Options, compare
    from tracediff.report.phrases import with_words

    said = request.said(force=request.force, noise=bool(given["noise"]), what_if=request.what_if)
    turns = False
    if bundle is not None:
        order = recorded(Path(request.baseline))
        said["recorded"], turns = order, in_turns(order)
    options = Options(request.force, request.kernels(), request.what_if, in_turns=turns, extra=said)
    result = complete(
        with_words(compare(sides[0], sides[1], options, noise=sides[2] if given["noise"] else None))
    )
    for add in (*adds.values(), *found):
        result = add(result)
    if notes:
        result = replace(result, warnings=[*result.warnings, *notes])
    if bundle is not None and result.kpi is None:
        from tracediff.companions.bench.compare import with_bundle_kpi

        result = with_bundle_kpi(result, bundle, warn)
    return result


def _additions(given: dict[str, list[Path]]) -> dict[str, Callable[[Result], Result]]:
    """Read what was given beside the traces now, and return by section what adds it to a result."""
    from tracediff.companions.files import beside

    one, other = beside(given["baseline"]), beside(given["candidate"])
    for section in sorted(one.keys() ^ other.keys()):
        have, lacks = ("baseline", "candidate") if section in one else ("candidate", "baseline")
        raise UsageError(
            "with-one-side",
            f"{(one | other)[section][0].name} was given for the {have}, and nothing like it for the {lacks}",
            fix=f"--with {lacks}=PATH",
        )
    return {section: _adding(section, one[section], other[section]) for section in one}


def _found(
    files: Sequence[SideFiles],
    words: Sequence[str],
    given: Container[str],
    controls: Mapping[SideName, Iterable[BundleRun]],
) -> tuple[list[Callable[[Result], Result]], list[Note]]:
    """The same of what lies in the folders of both sides, but of sections that were `given`, and of the `controls` of a bundle; what is left out is noted, and is no error."""
    from tracediff.companions.files import of_both, unprofiled, within

    one, other, notes = of_both(*(
        within(side, word, given) | unprofiled(controls.get(name, ())) for name, side, word in zip(SIDES, files, words, strict=True)
    ))  # fmt: skip
    adds = []
    for section in one:
        try:
            adds.append(_adding(section, one[section], other[section]))
        except TracediffError as error:
            notes.append(Note("beside-left-out", f"{error.message} [{error.slug}]: left out. {error.fix}"))
    return adds, notes


def _adding(section: str, one: list[Path], other: list[Path]) -> Callable[[Result], Result]:
    """Read the files of a section of both sides, and return what adds it to a result. Raises `TracediffError`: those of the readers."""
    if section == "ncu":
        from tracediff.companions.ncu.compare import compare_ncu
        from tracediff.companions.ncu.read import read as read_profile

        before, after = (read_profile(side[0]) for side in (one, other))
        return lambda result: replace(result, ncu=compare_ncu(before, after, result.kernels))
    if section == "trtexec":
        from tracediff.companions.trtexec.compare import compare_trtexec
        from tracediff.companions.trtexec.read import read as read_engine

        trtexec = compare_trtexec(*(read_engine(",".join(map(str, side))) for side in (one, other)))
        return lambda result: replace(result, trtexec=trtexec)
    if section == "latencies":
        from tracediff.companions.latencies.compare import beside as beside_steps
        from tracediff.companions.latencies.compare import compare_latencies
        from tracediff.companions.latencies.read import read_side

        latencies = compare_latencies(read_side(one), read_side(other))
        return lambda result: replace(result, latencies=beside_steps(latencies, result))
    from tracediff.companions.bench.compare import with_kpi
    from tracediff.companions.bench.read import read as read_report

    reports, others = ([read_report(path) for path in side] for side in (one, other))
    return lambda result: with_kpi(result, reports, others)


def show_request(
    request: ShowRequest, *, keep: bool = False, progress: Callable[[str], None] = lambda _: None
) -> Show:
    """The same of one side. Raises `TracediffError`: those of `resolve`, `reduce_sides`, `show` and `read`."""
    from tracediff.companions.bench.compare import show_kpi
    from tracediff.companions.bench.read import read
    from tracediff.companions.files import within
    from tracediff.comparison.compare import Options
    from tracediff.comparison.show import show
    from tracediff.report.phrases import with_titles

    files = selected([resolve(os.fspath(request.capture))], request.selections())
    given = paths(request.kpi) or within(files[0], os.fspath(request.capture)).get("kpi", ())
    figures = [read(path) for path in given]
    (side,) = reduce_sides(files, replace(request.reading(keep=keep), graph="some"), progress)
    options = Options(extra=request.said(sides=1))
    shown = with_titles(show(side, options, request.picks(), request.worst or 0))
    odd = [note for report in figures for note in report.warnings]
    return replace(shown, kpi=show_kpi(figures), warnings=[*shown.warnings, *odd])


def what_if_request(request: WhatIfRequest, *, progress: Callable[[str], None] = lambda _: None) -> WhatIf:
    """Replay the steps of one side with changes. Raises `TracediffError`: those of `parse_edits`, `resolve`, `reduce_sides` and `what_if`."""
    from tracediff.comparison.what_if import parse_edits, what_if

    without, scale, fuse = (
        [one] if isinstance(one, str) else one for one in (request.without, request.scale, request.fuse)
    )
    asked = parse_edits(without, scale, fuse, request.graph, request.ahead)
    files = selected([resolve(os.fspath(request.capture))], request.selections())
    (side,) = reduce_sides(files, replace(request.reading(), graph="all"), progress)
    return what_if(side, asked, request.said(sides=1))


def bisect_request(request: BisectRequest, folder: Path, watch: Watch) -> Bisect:
    """Search for the commit that caused a change; what is known already is in `folder`, and what is found is kept there.

    Raises `TracediffError`: bad-gate, bad-measure, measure-by-run, bisect-no-commits, checkout-no-repository, checkout-unknown-ref, and those of `probe.plan_of`, `need_nsys`, `store.opened`
    and `Search.run`.
    """
    import tracediff
    from tracediff.bisect.decide import ERROR, parse_cause
    from tracediff.bisect.probe import TREES, Prober, plan_of
    from tracediff.bisect.search import History, Search, commit, fingerprint, keep, opened, remove
    from tracediff.capture.checkout import root
    from tracediff.capture.machine import need_nsys
    from tracediff.model import Tool
    from tracediff.model.bisect import Bisect

    measure, limit_ns, share = parse_cause(request.cause)
    plan = plan_of(request.capture or "", request.build)
    repository = root()
    good, bad = commit(repository, request.good), commit(repository, request.bad)
    tree = folder.resolve() / TREES / "candidate"
    history = History(repository, tree, good, bad, request.first_parent)
    commits = history.commits()
    if not commits:
        raise UsageError(
            "bisect-no-commits",
            f"no commit comes after {request.good}, up to {request.bad}",
            fix="the older commit first: GOOD, then BAD",
        )
    reading = request.reading()
    fresh = Bisect(
        tool=Tool("tracediff", tracediff.__version__), measure=measure.text, limit_ns=limit_ns,
        limit_given=limit_ns is not None or share is not None, good=good, bad=bad, commits=commits,
        error=ERROR, max_pairs=request.max_pairs,
        fingerprint=fingerprint(plan, [good.commit, bad.commit, request.first_parent, repr(replace(reading, threads=None, memory_limit=None))], [measure.text, limit_ns, share]),
    )  # fmt: skip
    nsys = need_nsys()
    with opened(folder, fresh) as state:
        prober = Prober(
            folder, good, measure, plan, nsys, os.environ, request.max_pairs, reading, 60 * (request.budget or float("inf")), lambda: state.seconds, watch,
        )  # fmt: skip
        search = Search(
            state, history, prober, lambda: keep(folder, state, history.log() if state.probes else ""), share
        )
        search.run()
        if state.outcome == "found":
            for side in SIDES:
                with suppress(TracediffError):  # a file of a build that still runs; the answer stands
                    remove(repository, tree.with_name(side))
    return state


def history_of(
    store: str, commits: Commits, measures: Sequence[str], program: str | None, limits: Iterable[Measure] = ()
) -> History:
    """All points of a program in a store, ordered by `commits`. A measure that no point holds is an error, but of a limit.

    Raises `TracediffError`: history-no-program, history-no-measure and those of `Store.read` and `measures.parse`.
    """
    from difflib import get_close_matches

    from tracediff.comparison.measures import parse
    from tracediff.history.analysis import analyse
    from tracediff.history.store import Store

    asked = [parse(text) for text in measures]
    kept, torn = Store(store).read()
    programs = sorted({one.point.program.name for one in kept})
    if program is not None and programs and program not in programs:
        raise UsageError(
            "history-no-program",
            f"{store}: no point bears the program name {program!r}; there are {', '.join(one or 'points without a name' for one in programs[:5])}",
            fix="--program NAME of one of them, or without --program",
        )
    found = analyse(kept, commits, asked=list(dict.fromkeys([*asked, *limits])), torn=torn, program=program)
    held = {one.measure for segment in found.segments for one in segment.standings}
    for one in asked if found.segments else ():
        if one.text not in held:
            names = {name for each in kept for name in each.point.measures.names}
            near = get_close_matches(one.text, sorted(names), cutoff=0.4)
            raise UsageError(
                "history-no-measure",
                f"{store}: no point holds {one.text}"
                + (f"; did you mean {' or '.join(near)}?" if near else ""),
                fix="a measure that the points keep: docs/investigate.md#since-which-commit lists them",
            )
    return found


def selected(sides: Sequence[SideFiles], only: tuple[Selection, Selection]) -> list[SideFiles]:
    """Sides (baseline, candidate, and what is read as the baseline) with what is measured of each."""
    return [replace(side, only=only[number % 2]) for number, side in enumerate(sides)]


def _ready() -> None:
    """Import what compares: a quarter of a second, in which the database reads."""
    importlib.import_module("tracediff.comparison.compare")
