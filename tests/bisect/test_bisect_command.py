"""`tracediff bisect` as a whole: git, builds, a stand-in for nsys, the exports that it writes, and the report."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.bisect.histories import git, repository
from tests.bisect.stand_in import StandIn
from tracediff.cli.main import cli
from tracediff.errors import TracediffError

SECRET = "hunter2hunter2"
# us of `_schedule` and of each of three kernels. From the decoy on, 30 us move from the kernels to the host.
LEVELS = {
    "base": {"schedule_us": 100, "kernel_us": 200},
    "slow": {"schedule_us": 130, "kernel_us": 200},
    "decoy": {"schedule_us": 130, "kernel_us": 190},
    "slow_decoy": {"schedule_us": 160, "kernel_us": 190},
    "other": {"schedule_us": 130, "kernel_us": 200, "gpu": "B200"},
}


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn(tmp_path / "bin", LEVELS)
    monkeypatch.setenv("NSYS", str(made.path))
    monkeypatch.setenv("API_TOKEN", SECRET)
    (tmp_path / "r").mkdir()
    monkeypatch.chdir(tmp_path / "r")
    return made


def history(
    levels: list[str],
    broken: Collection[int] = (),
    crash: Collection[int] = (),
    script: str = "test -f built\n",
) -> list[str]:
    """A repository here, with a commit for each level; those that do not build, and those whose program fails."""
    return repository(
        Path(),
        [
            {
                "level": level,
                "number": str(number),
                "build.sh": "echo no such header >&2; exit 2\n" if number in broken else "touch built\n",
                "work.sh": "exit 7\n" if number in crash else script,
            }
            for number, level in enumerate(levels)
        ],
    )


def bisect(
    *words: object, status: int = 0, build: str = "sh build.sh", capture: str = "sh work.sh"
) -> Result:
    every = ["bisect", *map(str, words), "--build", build, "--capture", capture, "-o", "../out"]
    done = CliRunner().invoke(cli, every, catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done


def state() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("../out/bisect.json").read_text())
    return found


@pytest.mark.slow
def test_the_culprit_is_found(nsys: StandIn) -> None:
    """Nine commits; the seventh is slow. git asks for 4, 6 and 5."""
    hashes = history([*6 * ["base"], *4 * ["slow"]])
    Path("number").write_text("mine")  # a change of the user's
    before = git(Path(), "status", "--porcelain", "--branch"), git(Path(), "worktree", "list")
    done = bisect(
        hashes[0], "main", "--cause", "host_work@_schedule", "--html", "../out.html", "--md", "../out.md"
    )
    found = state()
    assert [one["commit"] for one in found["culprits"]] == [hashes[6]]
    assert [(one["candidate"]["commit"], one["verdict"]) for one in found["probes"]] == [
        (hashes[4], "good"), (hashes[6], "bad"), (hashes[5], "good"),
    ]  # fmt: skip
    # half of 30 us; noise is 1 us at most
    assert found["limit_ns"] == pytest.approx(15_000, abs=1_000)
    assert found["parent"]["baseline"]["commit"] == hashes[5]
    assert found["parent"]["delta_ns"] == pytest.approx(30_000, abs=2_000)
    assert found["parent"]["low_ns"] > 0
    # both ends, three probes and the culprit beside its parent, three pairs or more each
    assert len(nsys.runs()) == sum(
        2 * one["pairs"] for one in (found["ends"], *found["probes"], found["parent"])
    )
    assert min(one["pairs"] for one in found["probes"]) >= 3
    assert f'Culprit: {hashes[6][:10]} "change 6"' in done.stdout
    assert "host_work@_schedule +29.7 us per step beside its parent" in " ".join(done.stdout.split())
    assert "next: tracediff compare ../out/probes/culprit --html culprit.html" in done.stderr
    assert f"`{hashes[6][:10]}`" in Path("../out.md").read_text()
    assert b"_schedule" in Path("../out.html").read_bytes()
    # nothing of the user's has changed, and nothing of the environment is kept
    assert before == (git(Path(), "status", "--porcelain", "--branch"), git(Path(), "worktree", "list"))
    assert git(Path(), "for-each-ref", "refs/bisect") == ""
    assert Path("number").read_text() == "mine"
    files = [path for path in Path("../out").rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    shown = CliRunner().invoke(cli, ["report", "../out/bisect.json"], catch_exceptions=False)
    assert shown.stdout == done.stdout
    # asked again it says the same, without a run
    many = len(nsys.runs())
    assert bisect(hashes[0], "main", "--cause", "host_work@_schedule").stdout.splitlines()[0] in done.stdout
    assert len(nsys.runs()) == many


@pytest.mark.slow
def test_commits_that_cannot_be_measured_are_skipped_and_named(nsys: StandIn) -> None:
    """Of 10: 5 does not build, 4 crashes, 7 ran on another GPU. git goes round them to the culprit, 3."""
    levels = [*3 * ["base"], *8 * ["slow"]]
    levels[7] = "other"
    hashes = history(levels, broken=[5], crash=[4])
    bisect(hashes[0], "main", status=0)
    found = state()
    assert [one["commit"] for one in found["culprits"]] == [hashes[3]]
    skipped = {one["candidate"]["commit"]: one for one in found["probes"] if one["verdict"] == "skip"}
    assert {hashes.index(one): probe["reason"] for one, probe in skipped.items()} == {
        5: "checkout-build-failed", 4: "capture-exit-code", 7: "not-comparable",
    }  # fmt: skip
    assert skipped[hashes[5]]["message"].endswith("ended with exit code 2: no such header")
    # a build that breaks at once takes time, less than a commit that was measured
    assert 0 < skipped[hashes[5]]["seconds"] < max(one["seconds"] for one in found["probes"])


@pytest.mark.slow
def test_a_run_that_fails_once_is_tried_again(nsys: StandIn) -> None:
    """In the 8th run: of the probe between both ends."""
    once = f"test $(wc -l < '{nsys.path.with_name('runs')}') -ne 8\n"
    hashes = history([*2 * ["base"], *2 * ["slow"]], script=once)
    bisect(hashes[0], "main")
    found = state()
    assert [one["commit"] for one in found["culprits"]] == [hashes[2]]
    assert [one["verdict"] for one in found["probes"]].count("skip") == 0


@pytest.mark.slow
def test_where_all_that_are_left_were_skipped_git_says_which(nsys: StandIn) -> None:
    hashes = history([*3 * ["base"], *3 * ["slow"]], broken=[3, 4])
    done = bisect(hashes[0], "main", status=4)
    found = state()
    assert found["outcome"] == "ambiguous"
    assert {one["commit"] for one in found["culprits"]} == {hashes[3], hashes[4], hashes[5]}
    assert found["parent"] is None
    assert "The culprit is one of 3 commits" in done.stdout


@pytest.mark.slow
def test_a_commit_that_is_faster_is_found_too(nsys: StandIn) -> None:
    hashes = history([*2 * ["slow"], *3 * ["base"]])
    done = bisect(hashes[0], "main")
    assert [one["commit"] for one in state()["culprits"]] == [hashes[2]]
    assert state()["limit_ns"] == pytest.approx(-15_000, abs=1_000)
    assert "step -30.3 us per step beside its parent" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_of_nothing_it_ends_at_once(nsys: StandIn) -> None:
    hashes = history(5 * ["base"])
    done = bisect(hashes[0], "main", "--max-pairs", 4, status=4)
    assert state()["outcome"] == "no_difference"
    assert state()["probes"] == []
    assert len(nsys.runs()) == 8
    assert "GOOD and BAD do not differ in step" in done.stdout


@pytest.mark.slow
def test_a_limit_that_bad_keeps(nsys: StandIn) -> None:
    """30 us more are no 50."""
    hashes = history([*2 * ["base"], *2 * ["slow"]])
    done = bisect(hashes[0], "main", "--cause", "host:+50us", status=4)
    assert state()["outcome"] == "no_difference"
    assert state()["ends"]["verdict"] == "good"
    assert "by more than 50.0 us per step" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_spent_budget_ends_it_and_a_larger_one_goes_on(nsys: StandIn) -> None:
    hashes = history([*5 * ["base"], *5 * ["slow"]])
    first = bisect(hashes[0], "main", "--budget", 1e-6, status=4)
    assert state()["outcome"] == "budget"
    assert len(nsys.runs()) == 6  # the first three pairs, after which it is asked for the first time
    assert "The budget is spent" in first.stdout
    began = [
        one["started"] for one in json.loads(Path("../out/probes/ends/manifest.json").read_text())["runs"]
    ]
    bisect(hashes[0], "main")
    assert [one["commit"] for one in state()["culprits"]] == [hashes[5]]
    runs = json.loads(Path("../out/probes/ends/manifest.json").read_text())["runs"]
    assert [one["started"] for one in runs][: len(began)] == began
    found = state()
    assert len(nsys.runs()) == sum(
        2 * one["pairs"] for one in (found["ends"], *found["probes"], found["parent"])
    )


@pytest.mark.slow
def test_after_ctrl_c_the_same_command_goes_on(nsys: StandIn) -> None:
    """In the 10th run, once: in the probe after both ends."""
    interrupt = (
        f"test -f built; test $(wc -l < '{nsys.path.with_name('runs')}') -ne 10 || "
        f"{{ kill -INT {os.getpid()}; sleep 60; }}\n"
    )
    hashes = history([*5 * ["base"], *5 * ["slow"]], script=interrupt)
    with pytest.raises(TracediffError, match="interrupted in") as stopped:
        bisect(hashes[0], "main")
    assert stopped.value.exit_code == 130
    assert stopped.value.fix == "the same command goes on from there"
    assert state()["outcome"] == "open"
    assert len(nsys.runs()) == 10
    bisect(hashes[0], "main")
    found = state()
    assert [one["commit"] for one in found["culprits"]] == [hashes[5]]
    pairs = sum(one["pairs"] for one in (found["ends"], *found["probes"], found["parent"]))
    assert len(nsys.runs()) == 2 * pairs + 1  # one of them was interrupted


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["main", "--cause", "step:+3"], "bad-gate"),
        (["main", "--cause", "hots_work"], "bad-measure"),
        (["main", "--cause", "launches:+10"], "measure-by-run"),
        (["main~2"], "bisect-no-commits"),
        (["nowhere"], "checkout-unknown-ref"),
        (["--", "--help"], "checkout-unknown-ref"),
    ],
)
def test_what_is_refused_before_any_run(nsys: StandIn, words: list[str], slug: str) -> None:
    history([*2 * ["base"], "slow"])
    every = ["bisect", "-o", "../out", "--capture", "sh work.sh", "main~2", *words]
    with pytest.raises(TracediffError) as refused:
        CliRunner().invoke(cli, every, catch_exceptions=False)
    assert refused.value.slug == slug
    assert nsys.runs() == []
    assert not Path("../out").exists()


def test_a_plan_has_no_sides_of_its_own(nsys: StandIn) -> None:
    history([*2 * ["base"], "slow"])
    Path("../plan.toml").write_text('command = "sh work.sh"\n[candidate]\npreset = "torch"\n')
    with pytest.raises(TracediffError, match="both sides of the plan") as refused:
        bisect("main~2", "main", capture="../plan.toml")
    assert refused.value.slug == "bisect-plan"


@pytest.mark.slow
def test_a_plan_is_that_of_capture(nsys: StandIn) -> None:
    history([*2 * ["base"], "slow"])
    Path("../plan.toml").write_text('command = "sh work.sh"\nmin_free_gib = 0\n')
    bisect("main~2", "main", capture="../plan.toml")
    assert state()["outcome"] == "found"


@pytest.mark.slow
def test_good_has_to_build(nsys: StandIn) -> None:
    hashes = history([*2 * ["base"], "slow"], broken=[0])
    with pytest.raises(TracediffError, match="no such header") as refused:
        bisect(hashes[0], "main")
    assert refused.value.slug == "bisect-end-broken"


@pytest.mark.slow
def test_a_misspelt_place_says_which_there_are_and_its_runs_serve_the_right_one(nsys: StandIn) -> None:
    hashes = history([*2 * ["base"], "slow"])
    with pytest.raises(TracediffError, match=r"did you mean '_schedule'\?") as refused:
        bisect(hashes[0], "main", "--cause", "host@schedul_e")
    assert refused.value.slug == "no-such-place"
    assert refused.value.fix is not None and refused.value.fix.startswith("--cause ")
    assert len(nsys.runs()) == 6  # three pairs
    bisect(hashes[0], "main", "--cause", "host@_schedule")
    found = state()
    assert [one["commit"] for one in found["culprits"]] == [hashes[2]]
    assert found["measure"] == "host_work@_schedule"
    probes = {one["folder"]: one["pairs"] for one in (found["ends"], *found["probes"], found["parent"])}
    assert len(nsys.runs()) == 2 * sum(probes.values())  # none was made again
    with pytest.raises(TracediffError) as refused:
        bisect(hashes[0], "main", "--cause", "host_work")
    assert refused.value.slug == "bisect-changed"


@pytest.mark.slow
def test_another_question_needs_another_folder(nsys: StandIn) -> None:
    hashes = history([*2 * ["base"], "slow"])
    bisect(hashes[0], "main", "--max-pairs", 5)
    with pytest.raises(TracediffError) as refused:
        bisect(hashes[0], "main", "--cause", "host_work")
    assert refused.value.slug == "bisect-changed"
    Path("../out/bisect.json").unlink()
    with pytest.raises(TracediffError) as refused:
        bisect(hashes[0], "main")
    assert refused.value.slug == "bisect-exists"


@pytest.mark.slow
def test_sixty_commits_with_broken_builds_and_a_decoy(nsys: StandIn) -> None:
    """From 20 on 30 us move from the kernels to `_schedule`; 41 makes the step 30 us longer; every 6th commit is broken."""
    levels = [f"{'slow_' * (number >= 41)}decoy" if number >= 20 else "base" for number in range(61)]
    broken = [number for number in range(5, 60, 6) if number != 41]
    hashes = history(levels, broken=broken[::2], crash=broken[1::2])
    bisect(hashes[0], "main")
    found = state()
    assert [one["commit"] for one in found["culprits"]] == [hashes[41]]
    measured = [one for one in (found["ends"], *found["probes"], found["parent"]) if one["pairs"]]
    assert len(measured) <= 9  # both ends, log2 of 60, the parent
    print(f"{len(nsys.runs())} runs, {len(found['probes'])} probes")
    assert len(nsys.runs()) < 15 * 60 / 10  # 15 repeats of every commit are 900 runs
