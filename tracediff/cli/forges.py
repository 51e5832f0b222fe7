"""A pull request on GitHub, a merge request on GitLab: found from what CI sets, with one comment of ours kept in place."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from tracediff.cli.forge_http import Api, Fixes
from tracediff.errors import TracediffError

Done = Literal["created", "updated", "unchanged"]
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True)
class Posted:
    """What happened, and where the comment is."""

    done: Done
    place: str


class Forge(ABC):
    """One pull or merge request."""

    def __init__(self, api: Api, thread: str) -> None:
        self.api = api
        self.thread = thread  # path of the request's comments

    def post(self, body: str, marker: str) -> Posted:
        """Update the comment that begins with the marker and is ours, else create one."""
        own = self._own()
        for comment in self.api.pages(f"{self.thread}?{self.query}"):
            if not _begins(comment, marker) or not self._is_ours(comment, own):
                continue
            if _same(comment["body"], body):
                return Posted("unchanged", self._place(comment))
            changed = self.api.send(self.update, self._path(comment), {"body": body}).data
            return Posted("updated", self._place(changed if isinstance(changed, dict) else comment))
        created = self.api.send("POST", self.thread, {"body": body}).data
        return Posted("created", self._place(created if isinstance(created, dict) else {}))

    query: str
    update: str

    @abstractmethod
    def _own(self) -> Any:
        """Who the token is; None where the API does not tell."""

    @abstractmethod
    def _is_ours(self, comment: dict[str, Any], own: Any) -> bool: ...

    @abstractmethod
    def _path(self, comment: dict[str, Any]) -> str: ...

    @abstractmethod
    def _place(self, comment: dict[str, Any]) -> str: ...

    def _user(self, key: str) -> Any:
        try:
            user = self.api.get("/user").data
        except TracediffError as error:
            if error.slug in ("forge-forbidden", "forge-not-found"):
                return None  # the token of an app or a job is nobody
            raise
        return user.get(key) if isinstance(user, dict) else None


class GitHub(Forge):
    """Comments of a pull request are those of its issue."""

    query = "per_page=100"
    update = "PATCH"

    def __init__(self, api: Api, repository: str, number: int) -> None:
        super().__init__(api, f"/repos/{repository}/issues/{number}/comments")
        self.comments = f"/repos/{repository}/issues/comments"

    def _own(self) -> Any:
        return self._user("login")

    def _is_ours(self, comment: dict[str, Any], own: Any) -> bool:
        """Anybody may write a comment with the marker: only one by the token's user, or else by a bot, is ours."""
        author = comment.get("user") or {}
        return bool(author.get("login") == own if own else author.get("type") == "Bot")

    def _path(self, comment: dict[str, Any]) -> str:
        return f"{self.comments}/{int(comment['id'])}"

    def _place(self, comment: dict[str, Any]) -> str:
        return str(comment.get("html_url", "the pull request"))


class GitLab(Forge):
    """Comments of a merge request are its notes."""

    query = "per_page=100&sort=asc&order_by=created_at"
    update = "PUT"

    def __init__(self, api: Api, project: str, number: int) -> None:
        super().__init__(api, f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes")
        self.number = number

    def _own(self) -> Any:
        return self._user("id")

    def _is_ours(self, comment: dict[str, Any], own: Any) -> bool:
        author = comment.get("author") or {}
        return not comment.get("system") and (own is None or author.get("id") == own)

    def _path(self, comment: dict[str, Any]) -> str:
        return f"{self.thread}/{int(comment['id'])}"

    def _place(self, comment: dict[str, Any]) -> str:
        return f"note {comment.get('id', '?')} on merge request {self.number}"


def _begins(comment: Any, marker: str) -> bool:
    if not isinstance(comment, dict) or not isinstance(comment.get("id"), int):
        return False
    first, _, _ = str(comment.get("body") or "").lstrip().partition("\n")
    return first.rstrip() == marker


def _same(one: str, other: str) -> bool:
    """Forges trim bodies and may store other line ends."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


def github(environment: Mapping[str, str], repository: str | None, number: int | None) -> GitHub:
    """Raises `TracediffError`: token-missing, forge-context."""
    token = _token(environment, ("GITHUB_TOKEN", "GH_TOKEN"))
    repository = repository or environment.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.match(repository):
        raise _context("the repository", "--repo OWNER/NAME, or run it where GITHUB_REPOSITORY is set")
    number = number or _event_number(environment)
    if not number:
        raise _context("the pull request", "--pr NUMBER; in a workflow, on: pull_request")
    base = _base(environment.get("GITHUB_API_URL") or "https://api.github.com")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    fixes = Fixes(
        "set GITHUB_TOKEN to a token that is valid",
        "the job needs `permissions: pull-requests: write`; a pull request from a fork gets no such token: see docs/ci.md",
        f"check that {repository} has a pull request {number}, and that the token may read it",
    )
    return GitHub(Api(base, token, headers, fixes), repository, number)


def gitlab(environment: Mapping[str, str], project: str | None, number: int | None) -> GitLab:
    """Raises `TracediffError`: token-missing, forge-context."""
    token = _token(environment, ("GITLAB_TOKEN",))
    project = project or environment.get("CI_PROJECT_ID", "")
    if not project:
        raise _context("the project", "--repo ID or PATH, or run it where CI_PROJECT_ID is set")
    number = number or _positive(environment.get("CI_MERGE_REQUEST_IID", ""))
    if not number:
        raise _context("the merge request", "--pr NUMBER; in a pipeline, rules for merge_request_event")
    base = _base(environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4")
    fixes = Fixes(
        "set GITLAB_TOKEN to a project access token that is valid",
        "the token needs the scope api and the role Reporter or more",
        f"check that the project has a merge request {number}, and that the token may read it",
    )
    return GitLab(Api(base, token, {"PRIVATE-TOKEN": token}, fixes), project, number)


def _token(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        token = environment.get(name, "").strip()
        if token:
            if not token.isascii() or not token.isprintable():
                break
            return token
    raise TracediffError(
        "token-missing",
        f"no usable token in {' or '.join(names)}",
        fix="set it in the environment; see docs/ci.md",
    )


def _base(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise _context("the address of the API", "GITHUB_API_URL or CI_API_V4_URL is an https address")
    return address.rstrip("/")


def _event_number(environment: Mapping[str, str]) -> int | None:
    """The pull request of the event that started the workflow."""
    found = re.match(r"refs/pull/(\d+)/", environment.get("GITHUB_REF", ""))
    try:
        event = json.loads(Path(environment.get("GITHUB_EVENT_PATH", "")).read_bytes())
    except (OSError, ValueError):
        event = {}
    if isinstance(event, dict):
        issue = event.get("issue")
        of_request = issue if isinstance(issue, dict) and "pull_request" in issue else {}
        for one in (event.get("pull_request"), of_request, *_run_requests(event)):
            number = _positive(one.get("number")) if isinstance(one, dict) else None
            if number:
                return number
    return _positive(found[1]) if found else None


def _run_requests(event: dict[str, Any]) -> list[Any]:
    """The pull requests of a workflow_run; none for those from a fork."""
    run = event.get("workflow_run")
    requests = run.get("pull_requests") if isinstance(run, dict) else None
    return requests if isinstance(requests, list) and len(requests) == 1 else []


def _positive(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"[1-9]\d{0,17}", text) else None


def _context(what: str, fix: str) -> TracediffError:
    return TracediffError("forge-context", f"{what} is not known", fix=fix, exit_code=2)
