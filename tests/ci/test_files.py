"""The files for continuous integration are what the forges document, and docs/gate.md leads to them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.ci.runners import ACTION_KEYS, RUNS_KEYS, STEP_KEYS, evaluate
from tests.tiny import ROOT
from tracediff.capture.plan import plan_from
from tracediff.comparison.gates import read_policy
from tracediff.formats.files import read_toml

INIT = ROOT / "templates" / "init"
ACTIONS = {name: yaml.safe_load((ROOT / name).read_text()) for name in ("action.yml", "comment/action.yml")}
ACTION = ACTIONS["action.yml"]
# Of https://docs.gitlab.com/ci/yaml/: those that the template uses.
JOB_KEYS = {"extends", "tags", "resource_group", "rules", "variables", "script", "artifacts"}
COMMENT_KEYS = {"extends", "image", "needs", "environment", "rules", "variables", "script", "artifacts"}
_HASH = r"[\w-]+/[\w/-]+@[0-9a-f]{40}"
_EDIT = r"<OWNER>/tracediff(/comment)?@<COMMIT>"


def workflow() -> dict[str, Any]:
    found = yaml.safe_load((INIT / "github.yml").read_text())
    return {
        "on" if key is True else key: value for key, value in found.items()
    }  # YAML 1.1 takes `on` for a truth


@pytest.mark.parametrize("name", ACTIONS)
def test_the_actions_have_documented_keys_only(name: str) -> None:
    action = ACTIONS[name]
    assert action.keys() <= ACTION_KEYS and action["runs"].keys() == RUNS_KEYS
    for step in action["runs"]["steps"]:
        assert step.keys() <= STEP_KEYS
        assert ("uses" in step) != ("run" in step and "shell" in step)
        assert re.fullmatch(_HASH, step.get("uses", f"a/b@{40 * '0'}"))  # a tag can be moved
    assert all(one.keys() == {"description", "default"} for one in action["inputs"].values())


def test_what_runs_the_program_is_given_no_token() -> None:
    """Nor does anything that can be registered stand in what `init` writes."""
    assert "token" not in str([ACTION["inputs"], ACTION["runs"]]).lower()
    jobs = workflow()["jobs"]
    assert workflow()["permissions"] == {"contents": "read"} and "permissions" not in jobs["compare"]
    assert jobs["compare"]["steps"][0]["with"]["persist-credentials"] is False
    assert (
        jobs["comment"]["permissions"] == {"pull-requests": "write"} and jobs["comment"]["needs"] == "compare"
    )
    assert not any("checkout" in step["uses"] for step in jobs["comment"]["steps"])
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(f"{_HASH}|{_EDIT}", one) for one in used)
    for forge in ("github", "gitlab"):
        text = (INIT / f"{forge}.yml").read_text()
        assert all(
            "TO EDIT" in line
            for line in text.splitlines()
            if "<OWNER>" in line or "tags: [" in line or "self-hosted" in line
        )
        assert not re.search(r"pip\S* install (--quiet )?[\"']?[a-z]", text)


@pytest.mark.parametrize("name", ACTIONS)
def test_every_expression_of_the_actions_reads_what_there_is(name: str) -> None:
    """An input, an output of a step before, or a context of the runner; a misspelled one would be empty for ever."""
    made: dict[str, set[str]] = {}
    for step in ACTIONS[name]["runs"]["steps"]:
        for path in re.findall(
            r"(?:inputs|steps)\.[\w.-]+", " ".join(re.findall(r"\$\{\{(.*?)\}\}", str(step)))
        ):
            kind, *names = path.split(".")
            known = names[0] in ACTIONS[name]["inputs"] if kind == "inputs" else names[2] in made[names[0]]
            assert known, path
        # No value of an event, an input or a step is pasted into a script: it would be run.
        assert "${{" not in step.get("run", "")
        if "id" in step:
            made[step["id"]] = set(re.findall(r"echo \"(\w+)=", step.get("run", ""))) or {"artifact-url"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [("a.b == 'x'", True), ("a.c", ""), ("!cancelled() && a.b", "x"), ("a.c || 'it''s'", "it's"), ("a.b != a.c", True), ("!a.b", False)],
)  # fmt: skip
def test_the_evaluator(expression: str, value: object) -> None:
    assert evaluate(expression, {"a": {"b": "x"}}) == value


def test_the_workflow_uses_the_action_with_its_inputs() -> None:
    found = workflow()
    assert found.keys() == {"name", "on", "permissions", "jobs"}
    assert found["on"].keys() == {"pull_request", "push", "workflow_dispatch"}
    compare, pin = found["jobs"]["compare"], found["jobs"]["pin"]
    assert compare.keys() == {"if", "runs-on", "concurrency", "steps"}
    checkout, used = compare["steps"]
    assert checkout["uses"].startswith("actions/checkout@") and checkout["with"]["fetch-depth"] == 0
    assert used["with"].keys() <= ACTION["inputs"].keys()
    assert compare["concurrency"] == {"group": "tracediff-gpu", "cancel-in-progress": False}
    for event, runs in (("pull_request", compare), ("push", compare), ("workflow_dispatch", pin)):
        jobs = [job for job in (compare, pin) if evaluate(job["if"][3:-2], {"github": {"event_name": event}})]
        assert jobs == [runs]


def test_the_template_of_gitlab_has_documented_keys_only() -> None:
    found = yaml.safe_load((INIT / "gitlab.yml").read_text())
    job = found["tracediff"]
    assert found.keys() == {".tracediff", "tracediff", "tracediff-comment"} and job.keys() == JOB_KEYS
    comment = found["tracediff-comment"]
    assert comment.keys() == COMMENT_KEYS and comment["environment"] == {
        "name": "tracediff-comment",
        "action": "access",
    }
    assert comment["needs"] == ["tracediff"] and "tags" not in comment
    assert job["artifacts"].keys() == {"when", "paths", "reports"}
    assert all(rule.keys() == {"if"} for rule in job["rules"])
    assert all(isinstance(value, str) for value in job["variables"].values())


def test_the_plan_and_the_policy_are_ones(tmp_path: Any) -> None:
    plan = plan_from(read_toml(INIT / "plan.toml"), tmp_path)
    assert plan.baseline == plan.candidate and plan.repeats == 5
    policy = read_policy(INIT / "tracediff.toml")
    assert {gate.text for gate in policy.gates if gate.severity == "error"} == {"step:+3%", "launches:+10"}
    text = (INIT / "tracediff.toml").read_text()
    whole = tmp_path / "tracediff.toml"  # with everything that stands in comments of code
    whole.write_text(re.sub(r'^( *)# (?="\w+:\+|\[\[|\w+ = )', r"\1", text, flags=re.MULTILINE))
    policy = read_policy(whole)
    assert len(policy.gates) == 5 and [str(one.expires) for one in policy.waivers] == ["2027-01-31"]


def test_the_guide_leads_to_what_init_writes_and_names_the_inputs() -> None:
    guide = (ROOT / "docs" / "gate.md").read_text()
    assert all(
        f"(../templates/init/{one})" in guide and (INIT / one).exists()
        for one in ("github.yml", "gitlab.yml")
    )
    named = guide.split("Inputs of the first, described in [action.yml](../action.yml): ")[1].split("\n\n")[0]
    assert re.findall(r"`([\w-]+)`", named) == list(ACTION["inputs"])
