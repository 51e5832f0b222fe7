"""Sides that are revisions: which commits, where they are checked out and built, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.capture.stand_ins import StandIns, manifest_of
from tracediff.capture.checkout import check_out, located
from tracediff.capture.plan import Plan, plan_from
from tracediff.capture.runner import fingerprint
from tracediff.cli.main import cli
from tracediff.errors import TracediffError

ME = ("-c", "user.name=me", "-c", "user.email=me@example.org")


def git(*words: str) -> str:
    return subprocess.run(["git", *ME, *words], check=True, capture_output=True, text=True).stdout.strip()


def commit(text: str) -> str:
    """One more commit, in which serve.txt holds the text."""
    Path("serve.txt").write_text(text)
    git("add", "serve.txt")
    git("commit", "-q", "-m", text)
    return git("rev-parse", "HEAD")


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """main: old - fork - newer; a branch from fork: head, which is checked out."""
    (tmp_path / "repo").mkdir()
    monkeypatch.chdir(tmp_path / "repo")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git("init", "-q", "-b", "main")
    found = {"old": commit("old"), "fork": commit("fork")}
    git("checkout", "-q", "-b", "request")
    found["head"] = commit("head")
    git("checkout", "-q", "main")
    found["newer"] = commit("newer")
    git("checkout", "-q", "request")
    return found


def plan(baseline: str | None, candidate: str | None, **more: Any) -> Plan:
    return plan_from(
        {"command": "program", "repeats": 1, "min_free_gib": 0, **more}, Path(), {"baseline_ref": baseline, "candidate_ref": candidate}
    )  # fmt: skip


def refs(one: Plan) -> tuple[str | None, str | None]:
    return one.baseline.ref, one.candidate.ref


def test_revisions_become_commits(commits: dict[str, str]) -> None:
    assert refs(located(plan("main", "HEAD"), Path("c"))) == (commits["newer"], commits["head"])
    assert refs(located(plan("main...", "HEAD"), Path("c"))) == (commits["fork"], commits["head"])
    assert refs(located(plan("HEAD~2", None), Path("c"))) == (commits["old"], None)
    assert located(plan(None, None), Path("c")) == plan(None, None)
    assert not Path("c").exists()


def test_each_side_is_built_in_a_checkout_of_its_own(commits: dict[str, str]) -> None:
    one = located(plan("main...", "HEAD", build="cat serve.txt > built\ncp built ..\n"), Path("c"))
    check_out(one, Path("b"), Path("c"), lambda text: None)
    assert Path("c/baseline/built").read_text() == "fork"
    assert Path("c/candidate/built").read_text() == "head"
    assert (one.baseline.cwd, one.candidate.cwd) == (
        Path("c/baseline").resolve(),
        Path("c/candidate").resolve(),
    )
    assert git("status", "--porcelain") == "?? c/"
    assert git("rev-parse", "--abbrev-ref", "HEAD") == "request"


def test_a_checkout_is_taken_again_with_what_its_build_left(commits: dict[str, str]) -> None:
    build = "echo $(cat serve.txt) >> built"
    for ref in ("HEAD~1", "HEAD~2"):
        check_out(located(plan(ref, None, build=build), Path("c")), Path("b"), Path("c"), lambda text: None)
        Path("c/baseline/serve.txt").write_text("changed by hand")
    assert Path("c/baseline/built").read_text() == "fork\nold\n"


def test_a_folder_of_the_repository_may_be_the_working_directory(commits: dict[str, str]) -> None:
    Path("engine").mkdir()
    Path("engine/run.txt").touch()
    git("add", "engine")
    git("commit", "-q", "-m", "engine")
    one = located(plan("HEAD", None, cwd="engine"), Path("c"))
    assert one.baseline.cwd == Path("c/baseline/engine").resolve()
    check_out(one, Path("b"), Path("c"), lambda text: None)
    assert refused(plan("HEAD~1", None, cwd="engine")) == (
        "checkout-no-folder",
        f"{commits['head'][:12]} has no folder engine",
    )
    assert refused(plan("HEAD", None, cwd="..")) == (
        "plan-invalid", f"[baseline] has a ref, and its cwd is outside the repository: {Path('..').resolve()}"
    )  # fmt: skip


def refused(one: Plan) -> tuple[str, str]:
    with pytest.raises(TracediffError) as error:
        check_out(located(one, Path("c")), Path("b"), Path("c"), lambda text: None)
    return error.value.slug, error.value.message


def test_what_is_refused(commits: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert refused(plan("nowhere", None)) == ("checkout-unknown-ref", "git finds no commit for 'nowhere'")
    assert refused(plan("--all", None))[0] == "checkout-unknown-ref"
    slug, message = refused(plan("HEAD", None, build="false\ntrue"))
    assert slug == "checkout-build-failed"
    assert message == f"the build of the baseline ({commits['head'][:12]}) ended with exit code 1"
    Path("c/candidate").mkdir()
    Path("c/candidate/mine").touch()
    assert refused(plan(None, "HEAD"))[0] == "checkout-failed"
    assert Path("c/candidate/mine").exists()
    git("clone", "-q", "--depth", "1", f"file://{Path().resolve()}", str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    assert refused(plan("HEAD~1", None))[1].endswith("'HEAD~1' in this shallow clone")
    monkeypatch.chdir(tmp_path)
    assert refused(plan("HEAD", None))[0] == "checkout-no-repository"


def test_a_bundle_is_not_resumed_with_another_commit(commits: dict[str, str]) -> None:
    prints = {fingerprint(located(plan(ref, "HEAD"), Path("c"))) for ref in ("HEAD~1", "HEAD~2", None)}
    assert len(prints) == 3


@pytest.mark.slow
def test_capture_runs_each_side_in_its_checkout(stand_ins: StandIns, commits: dict[str, str]) -> None:
    Path("plan.toml").write_text(
        'repeats = 2\nmin_free_gib = 0\nbuild = "touch built"\n'
        '[baseline]\ncommand = "program baseline"\n[candidate]\ncommand = "program candidate"\n'
    )
    words = ["capture", "plan.toml", "--baseline-ref", "main...", "--candidate-ref", "HEAD", "-o", "out"]
    shown = CliRunner().invoke(cli, [*words, "--plan"])
    assert f"cd {Path('out-checkouts/baseline').resolve()} && " in shown.stdout
    assert not Path("out-checkouts").exists()
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "warning: what is not committed here is not in the candidate" in done.stderr
    places = {call["args"][0]: call["cwd"] for call in stand_ins.calls("program")}
    assert places == {
        side: str(Path(f"out-checkouts/{side}").resolve()) for side in ("baseline", "candidate")
    }
    sides = manifest_of(Path("out"))["sides"]
    assert {side: found["git"]["commit"] for side, found in sides.items()} == {
        "baseline": commits["fork"], "candidate": commits["head"],
    }  # fmt: skip
    Path("out-checkouts/candidate/built").unlink()
    again = CliRunner().invoke(cli, words)
    assert isinstance(again.exception, TracediffError) and again.exception.slug == "bundle-exists"
    assert not Path(
        "out-checkouts/candidate/built"
    ).exists()  # nothing is built for a bundle that cannot be written


def test_what_capture_writes_is_no_uncommitted_work(stand_ins: StandIns, commits: dict[str, str]) -> None:
    Path("plan.toml").write_text(
        'repeats = 1\nmin_free_gib = 0\n[baseline]\ncommand = "program baseline"\n[candidate]\ncommand = "program candidate"\n'
    )
    git("add", "plan.toml")
    git("commit", "-q", "-m", "plan")
    done = CliRunner().invoke(
        cli, ["capture", "plan.toml", "--baseline-ref", "main", "--candidate-ref", "HEAD", "-o", "out"]
    )
    assert (done.exit_code, "not committed" in done.stderr) == (0, False), done.output
