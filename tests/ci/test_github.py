"""action.yml, step by step: what a job exits with, and what it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.ci.conftest import Repository
from tests.ci.runners import Done, GitHub
from tests.cli.test_comment import Forge
from tests.tiny import ROOT

pytestmark = pytest.mark.slow
ALL = ["Start", "Install", "Capture", "Compare", "Keep"]
COMMENT = "comment/action.yml"


def pull_request(repository: Repository, forge: Forge, head: str = "owner/repo", **how: bool) -> GitHub:
    env = {
        **repository.env, "GITHUB_BASE_REF": "main", "GITHUB_REF": "refs/pull/12/merge", "GITHUB_API_URL": forge.address,
        "GITHUB_SHA": repository.git("rev-parse", "HEAD"), "GITHUB_REF_NAME": "12/merge",
    }  # fmt: skip
    event = {"pull_request": {"number": 12, "head": {"repo": {"full_name": head}}}}
    return GitHub(repository.clone, repository.clone.parent, env, event, "pull_request", **how)


def pushed(repository: Repository) -> GitHub:
    env = {**repository.env, "GITHUB_SHA": repository.git("rev-parse", "HEAD"), "GITHUB_REF_NAME": "main"}
    event = {"repository": {"default_branch": "main"}}
    return GitHub(repository.clone, repository.clone.parent, env, event, "push")


def commits(repository: Repository, done: Done, name: str = "plan") -> dict[str, str]:
    manifest = json.loads(
        (repository.clone.parent / "temp" / "tracediff" / name / "manifest.json").read_text()
    )
    return {side: found["git"]["commit"] for side, found in manifest["sides"].items()}


def test_a_regression_fails_the_job(repository: Repository, forge: Forge) -> None:
    repository.request(speed="slow", build_me="x")
    runner = pull_request(repository, forge)
    done = runner.run(build='test -f speed && cat speed > built && echo "built $(cat built)"')
    assert done.status == 3, done.log
    assert done.steps == ALL
    assert forge.calls == []
    assert commits(repository, done) == {
        "baseline": repository.git("rev-parse", "main"), "candidate": repository.git("rev-parse", "HEAD"),
    }  # fmt: skip
    assert runner.run(COMMENT).steps == ["Start", "Fetch", "Install", "Comment"]
    assert "built fast" in done.log and "built slow" in done.log
    (comment,) = forge.comments
    assert "▲ Slower with " in comment["body"].splitlines()[0]
    assert "Gate `step:+3%` **failed**" in comment["body"]
    assert "[HTML report](https://github.example/owner/repo/actions/runs/7)" in comment["body"]
    assert forge.tokens == {"ghs_job"} and forge.calls[-1][1] == "/repos/owner/repo/issues/12/comments"
    assert "::error" in done.log and "step:+3%" in done.log
    assert "▲ Slower with " in done.summary.splitlines()[0]
    kept = Path(runner.folder / "artifacts" / "tracediff")
    assert {path.name for path in kept.iterdir()} == {"plan.json", "plan.html", "plan.xml"}
    suite = ElementTree.parse(kept / "plan.xml").getroot()
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] == [
        "step:+3%"
    ]


def test_the_same_program_passes_and_its_comment_stays_one(repository: Repository, forge: Forge) -> None:
    repository.request(README="words")
    runner = pull_request(repository, forge)
    for _ in range(2):
        done = runner.run(key="h200")
        assert done.status == 0, done.log
        assert done.steps == ALL
        assert runner.run(COMMENT, key="h200").status == 0
    assert len(forge.comments) == 1 and forge.comments[0]["body"].endswith("<!-- tracediff:h200 -->")
    assert (runner.folder / "artifacts" / "tracediff-h200" / "plan.json").is_file()


def test_noise_is_neither(repository: Repository, forge: Forge) -> None:
    repository.request(speed="noisy")
    runner = pull_request(repository, forge)
    done = runner.run()
    runner.run(COMMENT)
    assert done.status == 0, done.log  # the policy that init writes lets it pass, and names it
    assert done.steps == ALL
    assert "Gate `step:+3%` inconclusive" in forge.comments[0]["body"]


def test_several_plans_make_one_comment_and_the_worst_decides(repository: Repository, forge: Forge) -> None:
    plan = (repository.clone / "perf/plan.toml").read_text().replace("repeats = 4", "repeats = 3")
    (repository.clone / "perf/steady.toml").write_text(
        f'{plan}\n[baseline]\ncwd = "../steady"\n[candidate]\ncwd = "../steady"\n'
    )
    (repository.clone / "steady").mkdir()
    repository.request(speed="slow", **{"steady/speed": "fast"})
    repository.git("checkout", "-q", "-B", "main", "HEAD")  # the folder steady has to be in the baseline, too
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    repository.request(README="words")
    runner = pull_request(repository, forge)
    done = runner.run(plan="perf/plan.toml\nperf/steady.toml")
    runner.run(COMMENT)
    assert done.status == 0, done.log
    assert forge.comments[0]["body"].startswith("2 benchmarks: ")
    assert len(forge.comments) == 1


def test_a_fork_s_code_is_refused_on_a_machine_of_one_s_own(repository: Repository, forge: Forge) -> None:
    repository.request(README="words")
    for head in ("mallory/repo", ""):  # a fork that was deleted has no name
        done = pull_request(repository, forge, head).run()
        assert (done.status, done.steps) == (1, ["Start"])
        assert "::error::A fork's code does not run on this machine" in done.log
    assert pull_request(repository, forge, "mallory/repo", hosted=True).run(plan="").steps[:2] == [
        "Start",
        "Install",
    ]
    forked = pull_request(repository, forge, "mallory/repo")
    assert forked.run(plan="", **{"allow-forks": "true"}).status == 0
    assert forked.run(COMMENT).steps == ["Start", "Fetch", "Install"]
    assert forge.calls == []


def test_main_is_held_against_the_pinned_baseline(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "tracediff-baseline")
    repository.commit(README="a merge")
    repository.commit(speed="slow")
    store = repository.clone.parent / "store"
    runner = pushed(repository)
    done = runner.run()
    assert (done.status, done.steps) == (3, ALL), done.log
    assert commits(repository, done)["baseline"] == first
    added = runner.run(COMMENT, history=str(store))
    assert (added.status, added.steps) == (0, ["Start", "Fetch", "Install", "History"]), added.log
    assert f"pip install --quiet {ROOT}/comment/..[comment,history]\n" in added.log
    (point,) = [path.read_text() for path in store.rglob("*") if path.is_file()]
    assert repository.git("rev-parse", "HEAD") in point and first in point


def test_without_a_pin_the_commit_before_is_the_baseline(repository: Repository) -> None:
    before = repository.git("rev-parse", "HEAD")
    repository.commit(README="words")
    done = pushed(repository).run()
    assert done.status == 0, done.log
    assert "::warning::No baseline is pinned" in done.log
    assert commits(repository, done)["baseline"] == before


def test_an_error_is_no_verdict(repository: Repository, forge: Forge) -> None:
    repository.request(speed="slow")
    runner = pull_request(repository, forge)
    done = runner.run(build="exit 7")
    assert (done.status, done.steps) == (1, ["Start", "Install", "Capture"])
    assert "[checkout-build-failed]" in done.log
    assert runner.run(COMMENT).status == 0
    done = pull_request(repository, forge).run(policy="nowhere.toml")
    assert (done.status, done.steps) == (2, ["Start", "Install", "Capture", "Compare"])
    assert forge.calls == []
