"""GitLab's template: the lines of its job, run in one shell."""

from __future__ import annotations

import json

import pytest

from tests.ci.conftest import Repository
from tests.ci.runners import gitlab
from tests.cli.test_comment import ME, Forge

pytestmark = pytest.mark.slow


def merge_request(repository: Repository, forge: Forge, source: str = "99") -> dict[str, str]:
    forge.user = ME
    return {
        **repository.env, "GITLAB_TOKEN": "glpat-secret", "CI_API_V4_URL": forge.address, "CI_PROJECT_ID": "99",
        "CI_MERGE_REQUEST_IID": "3", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": source, "CI_PIPELINE_URL": "https://gitlab.example/pipelines/5",
        "TRACEDIFF_PACKAGE": "/opt/tracediff[comment]", "CI_JOB_URL": "https://gitlab.example/owner/repo/-/jobs/71",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": repository.git("rev-parse", "main"), "CI_COMMIT_SHA": repository.git("rev-parse", "HEAD"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("speed", "status", "said"), [("slow", 3, "Slower with "), ("fast ", 0, ""), ("noisy", 0, "")]
)
def test_the_gates_decide(speed: str, status: int, said: str, repository: Repository, forge: Forge) -> None:
    repository.request(speed=speed)
    env = merge_request(repository, forge)
    done = gitlab(repository.clone, env)
    assert done.status == status, done.log
    assert "pip install --quiet /opt/tracediff[comment]\n" in done.log
    assert forge.calls == []
    assert gitlab(repository.clone, env, "tracediff-comment").status == 0
    (comment,) = forge.comments
    assert said in comment["body"].splitlines()[0]
    assert "[HTML report](https://gitlab.example/pipelines/5)" in comment["body"]
    shown = "https://gitlab.example/owner/repo/-/jobs/71/artifacts/raw/tracediff-pictures/waterfall.png"
    assert f"]({shown})" in comment["body"]
    assert (repository.clone / "tracediff-pictures/waterfall.png").read_bytes().startswith(b"\x89PNG")
    out = repository.clone / "tracediff-out"
    assert {path.name for path in out.glob("*.*")} == {"plan.json", "plan.html", "plan.xml"}


def test_a_fork_s_code_is_refused(repository: Repository, forge: Forge) -> None:
    repository.request(speed="slow")
    done = gitlab(repository.clone, merge_request(repository, forge, source="100"))
    assert done.status == 1 and "a fork's code does not run on this machine" in done.log
    assert forge.calls == [] and not (repository.clone / "tracediff-out").exists()


def test_the_default_branch(repository: Repository) -> None:
    repository.git("tag", "tracediff-baseline")
    repository.commit(README="a merge")
    repository.commit(speed="slow")
    store = repository.clone.parent / "store"
    env = {
        **repository.env, "TRACEDIFF_HISTORY": str(store), "CI_PIPELINE_URL": "https://gitlab.example/pipelines/5", "CI_PROJECT_ID": "99",
        "CI_COMMIT_SHA": repository.git("rev-parse", "HEAD"), "TRACEDIFF_PACKAGE": "/opt/tracediff[comment,history]",
    }  # fmt: skip
    done = gitlab(repository.clone, env)
    assert done.status == 3, done.log
    assert gitlab(repository.clone, env, "tracediff-comment").status == 0
    manifest = json.loads((repository.clone / "tracediff-out/plan/manifest.json").read_text())
    assert manifest["sides"]["baseline"]["git"]["commit"] == repository.git("rev-parse", "tracediff-baseline")
    (point,) = [path.read_text() for path in store.rglob("*") if path.is_file()]
    assert (
        repository.git("rev-parse", "HEAD") in point
        and repository.git("rev-parse", "tracediff-baseline") in point
    )


def test_nothing_is_installed_that_was_not_named(repository: Repository, forge: Forge) -> None:
    env = {
        name: value for name, value in merge_request(repository, forge).items() if name != "TRACEDIFF_PACKAGE"
    }
    for job in ("tracediff", "tracediff-comment"):
        done = gitlab(repository.clone, env, job)
        assert done.status != 0 and "TRACEDIFF_PACKAGE: set it in this file" in done.log
