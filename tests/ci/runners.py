"""What runs a job: the steps of a composite action as GitHub does, the script of a job as GitLab does.

Only what action.yml and the templates use is here; anything else is an error.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.tiny import ROOT

ACTION_KEYS = {"name", "description", "inputs", "outputs", "runs"}
RUNS_KEYS = {"using", "steps"}
STEP_KEYS = {"name", "id", "if", "shell", "env", "run", "uses", "with"}
_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|&&|\|\||==|!=|!|cancelled\(\)|[a-z_][\w.-]*)")
_OPERATORS = {"&&": "and", "||": "or", "==": "==", "!=": "!=", "!": "not", "cancelled()": "False"}


def evaluate(expression: str, contexts: dict[str, Any]) -> Any:
    """The value of what stands in ${{ }}."""

    def looked_up(path: str) -> Any:
        value: Any = contexts
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return "" if value is None else value

    words, at = [], 0
    while at < len(expression.rstrip()):
        token = _TOKEN.match(expression, at)
        assert token, f"{expression[at:]!r} is nothing that the evaluator knows"
        text, at = token[1], token.end()
        if text.startswith("'"):
            words.append(repr(text[1:-1].replace("''", "'")))
        else:
            words.append(_OPERATORS.get(text) or repr(looked_up(text)))
    return eval(" ".join(words), {"__builtins__": {}})


def filled(text: str, contexts: dict[str, Any]) -> str:
    """The text with each ${{ }} replaced."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(evaluate(found[1], contexts)), text)


@dataclass
class Done:
    """How a job ended: the first exit status that was not 0, what it printed, and the steps that ran."""

    status: int
    log: str
    steps: list[str] = field(default_factory=list)
    summary: str = ""


@dataclass
class GitHub:
    """A runner with a workspace; artifacts are folders in `artifacts`."""

    workspace: Path
    folder: Path  # for RUNNER_TEMP and files of commands
    env: dict[str, str]
    event: dict[str, Any]
    event_name: str
    hosted: bool = False

    def run(self, action_file: str = "action.yml", **inputs: str) -> Done:
        action = yaml.safe_load((ROOT / action_file).read_text())
        files = {name: self.folder / name for name in ("event.json", "output", "summary")}
        files["event.json"].write_text(json.dumps(self.event))
        temp, summary = self.folder / "temp", files["summary"]
        shutil.rmtree(temp, ignore_errors=True)  # each job has a machine of its own
        temp.mkdir()
        if action_file == "action.yml":
            shutil.rmtree(self.folder / "artifacts", ignore_errors=True)
        summary.write_text("")
        github = {
            "event": self.event, "event_name": self.event_name, "repository": "owner/repo", "token": "ghs_job",
            "ref_name": self.env.get("GITHUB_REF_NAME", ""), "server_url": "https://github.example", "run_id": "7",
        }  # fmt: skip
        steps: dict[str, Any] = {}
        contexts: dict[str, Any] = {
            "github": github, "steps": steps, "runner": {"environment": "github-hosted" if self.hosted else "self-hosted"},
        }  # fmt: skip
        defaults = {name: filled(one.get("default", ""), contexts) for name, one in action["inputs"].items()}
        assert not inputs.keys() - defaults.keys()
        contexts["inputs"] = {**defaults, **inputs}
        env = {
            **self.env, "GITHUB_ACTIONS": "true", "CI": "true", "GITHUB_REPOSITORY": "owner/repo", "RUNNER_TEMP": str(temp),
            "GITHUB_EVENT_PATH": str(files["event.json"]), "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_EVENT_NAME": self.event_name, "GITHUB_ACTION_PATH": str((ROOT / action_file).parent), "GITHUB_OUTPUT": str(files["output"]),
        }  # fmt: skip
        done = Done(0, "")
        for step in action["runs"]["steps"]:
            condition = step.get("if", "${{ 'x' }}").removeprefix("${{").removesuffix("}}")
            if (done.status and "cancelled()" not in condition) or not evaluate(condition, contexts):
                continue
            done.steps.append(step["name"])
            if "uses" in step:
                outputs = (self._download if "download" in step["uses"] else self._upload)(step, contexts)
            else:
                assert step["shell"] == "bash"
                files["output"].write_text("")
                (self.folder / "script.sh").write_text(filled(step["run"], contexts))
                ran = subprocess.run(
                    ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(self.folder / "script.sh")], cwd=self.workspace,
                    env={**env, **{name: filled(value, contexts) for name, value in step["env"].items()}},
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                )  # fmt: skip
                done.log += ran.stdout
                done.status = done.status or ran.returncode
                outputs = dict(line.split("=", 1) for line in files["output"].read_text().splitlines())
            if "id" in step:
                steps[step["id"]] = {"outputs": outputs}
        done.summary = summary.read_text()
        return done

    def _upload(self, step: dict[str, Any], contexts: dict[str, Any]) -> dict[str, str]:
        """What actions/upload-artifact does."""
        assert step["uses"].startswith("actions/upload-artifact@") and step["with"].keys() == {"name", "path"}
        kept = self.folder / "artifacts" / filled(step["with"]["name"], contexts)
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for pattern in filled(step["with"]["path"], contexts).split():
            for path in sorted(Path(pattern).parent.glob(Path(pattern).name)):
                shutil.copy(path, kept)
        return {"artifact-url": "https://github.example/artifacts/1"}

    def _download(self, step: dict[str, Any], contexts: dict[str, Any]) -> dict[str, str]:
        """What actions/download-artifact does: nothing where no artifact is called so."""
        assert step["uses"].startswith("actions/download-artifact@") and step["with"].keys() == {
            "pattern",
            "path",
            "merge-multiple",
        }
        kept = self.folder / "artifacts" / filled(step["with"]["pattern"], contexts)
        if kept.is_dir():
            shutil.copytree(kept, filled(step["with"]["path"], contexts))
        return {}


def gitlab(workspace: Path, env: dict[str, str], name: str = "tracediff") -> Done:
    """Run a job of GitLab's template: all lines of its script in one shell."""
    jobs = yaml.safe_load((ROOT / "templates/init/gitlab.yml").read_text())
    job = jobs[name] | {"variables": jobs[jobs[name]["extends"]]["variables"] | jobs[name]["variables"]}
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(job["script"])], cwd=workspace,
        env={**job["variables"], "CI": "true", "GITLAB_CI": "true", **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    return Done(ran.returncode, ran.stdout)
