"""`tracediff init`: the files that a repository needs before its first comparison in continuous integration."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.cli.options import POLICY, PYPROJECT
from tracediff.cli.say import say

# Template, where it goes, and what to do with it there.
_POLICY = ("init/tracediff.toml", str(POLICY), "the gates: set limits that your runs can detect")
_PLAN = ("init/plan.toml", "perf/plan.toml", "command: what your program is started with")
_FORGES = {
    "github": ("init/github.yml", ".github/workflows/tracediff.yml", "what is marked TO EDIT: your GPU runner, your copy of tracediff, your main branch"),
    "gitlab": ("init/gitlab.yml", ".gitlab/tracediff.yml", "what is marked TO EDIT: your GPU runner, your copy of tracediff; include it in .gitlab-ci.yml, as its first lines say"),
}  # fmt: skip


@click.command(
    epilog="""
\b
Example:
  tracediff init --github
  tracediff capture perf/plan.toml --plan

\b
tracediff.toml is what `tracediff compare` reads in the folder it runs in. See docs/gate.md.
"""
)
@click.option("--github", is_flag=True, help="Write a workflow of GitHub Actions, too.")
@click.option("--gitlab", is_flag=True, help="Write a job of GitLab, too.")
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite files that are there; without it they stay.")
def init(github: bool, gitlab: bool, overwrite: bool) -> None:
    """Write tracediff.toml (gates) and perf/plan.toml (what to capture) into this folder, the top of a repository."""
    from tracediff.comparison.gates import read_policy
    from tracediff.report.templates import text
    from tracediff.write import check_outputs, make_folder, write_atomically

    chosen = [_PLAN, *(_FORGES[name] for name, on in (("github", github), ("gitlab", gitlab)) if on)]
    if read_policy(PYPROJECT, required=False).source:
        say(f"the gates stay in [tool.tracediff] of {PYPROJECT}", err=False)
    else:
        chosen.insert(0, _POLICY)
    files = {Path(place): (text(name), edit) for name, place, edit in chosen}
    kept = [] if overwrite else [path for path in files if path.exists()]
    for path in kept:
        say(f"{path} is there and stays (-f overwrites it)", err=False)
        del files[path]
    check_outputs((path for path in files if path.parent.is_dir()), overwrite)
    for path in files:
        for folder in reversed(path.parents[:-1]):
            make_folder(folder)
    for path, (content, edit) in files.items():
        write_atomically(path, content.encode(), overwrite)
        say(f"wrote {path}; edit {edit}", err=False)
    say("next: tracediff capture perf/plan.toml --plan", err=False)
