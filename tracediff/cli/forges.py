"""A pull request on GitHub, a merge request on GitLab: found from what CI sets, with one comment of ours kept in place."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import tracediff
from tracediff.errors import TracediffError
from tracediff.report.escape import shorten, visible

# Calls to a forge's HTTP API: JSON in, JSON out, every failure an error that says what to do about it.

_TRIES = 3
_LONGEST_WAIT_S = 30.0
_MOST_BYTES = 32_000_000
_MOST_PAGES = 1_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would send the token on to wherever a redirect points."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True)
class Answer:
    """A decoded answer and the address of the page that follows it, if any."""

    data: Any
    next_page: str | None


@dataclass(frozen=True)
class Fixes:
    """What to do about the failures that mean something else on each forge."""

    unauthorized: str
    forbidden: str
    not_found: str


@dataclass(frozen=True)
class Api:
    """An API at `base` (no slash at its end), called as the owner of `token`."""

    base: str
    token: str
    headers: dict[str, str]
    fixes: Fixes
    timeout_s: float = 30.0
    sleep: Callable[[float], None] = time.sleep

    def is_private(self) -> bool:
        """Whether nobody on the way can read the token: https, or this very machine."""
        parts = urlsplit(self.base)
        return parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")

    def get(self, path: str) -> Answer:
        """Raises `TracediffError`: see `call`."""
        return self.call("GET", f"{self.base}{path}")

    def pages(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page by page, as long as they are asked for."""
        address: str | None = f"{self.base}{path}"
        for _ in range(_MOST_PAGES):
            if address is None:
                return
            answer = self.call("GET", address)
            if not isinstance(answer.data, list):
                raise self._failed("a list was expected")
            yield from answer.data
            address = answer.next_page

    def send(self, method: str, path: str, data: object) -> Answer:
        """Create or change something. Creating is not tried twice: it may have happened the first time."""
        return self.call(method, f"{self.base}{path}", data)

    def call(self, method: str, address: str, data: object = None) -> Answer:
        """Raises `TracediffError`.

        forge-unauthorized, forge-forbidden, forge-rate-limit, forge-not-found, forge-refused, forge-redirected,
        forge-failed, forge-unreachable.
        """
        if urlsplit(address)[:2] != urlsplit(self.base)[:2]:
            raise self._failed("the next page is on another server")
        tries = 1 if method == "POST" else _TRIES
        for attempt in range(1, tries + 1):
            try:
                return self._once(method, address, data)
            except urllib.error.HTTPError as error:
                with error:
                    if attempt == tries or not (error.code >= 500 or error.code == 429):
                        raise self._explained(error) from None
                    self.sleep(_wait(error.headers, attempt))
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                if attempt == tries:
                    raise self._unreachable(error) from None
                self.sleep(float(attempt))
        raise AssertionError  # the last try returns or raises

    def _once(self, method: str, address: str, data: object) -> Answer:
        body = None if data is None else json.dumps(data).encode()
        headers = {"User-Agent": f"tracediff/{tracediff.__version__}", **self.headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(address, body, headers, method=method)
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=self.timeout_s) as answer:
            raw = answer.read(_MOST_BYTES)
            following = _next(answer.headers)
        try:
            return Answer(json.loads(raw), following)
        except ValueError:
            raise self._failed("its answer is no JSON") from None

    def _explained(self, error: urllib.error.HTTPError) -> TracediffError:
        code, said = error.code, self._said(error)
        spent = error.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in error.headers
        limited = code == 429 or (code == 403 and spent)
        if limited:
            return TracediffError(
                "forge-rate-limit",
                f"{self._host()} limits the rate of calls ({code}){said}",
                fix="try again later",
            )
        if code == 401:
            return TracediffError(
                "forge-unauthorized",
                f"{self._host()} refused the token (401){said}",
                fix=self.fixes.unauthorized,
            )
        if code == 403:
            return TracediffError(
                "forge-forbidden",
                f"{self._host()} forbids this to the token (403){said}",
                fix=self.fixes.forbidden,
            )
        if code == 404:
            return TracediffError(
                "forge-not-found", f"{self._host()} knows no such thing (404){said}", fix=self.fixes.not_found
            )
        if 300 <= code < 400:
            return TracediffError(
                "forge-redirected", f"{self._host()} points elsewhere ({code}), and a token is not sent on",
                fix="name the repository and the API address by their present names",
            )  # fmt: skip
        if code in (400, 409, 413, 422):
            return TracediffError(
                "forge-refused", f"{self._host()} refused the comment ({code}){said}", fix="see what it says"
            )
        return self._failed(f"status {code}{said}")

    def _said(self, error: urllib.error.HTTPError) -> str:
        """What the API says about it, fit to print."""
        try:
            data = json.loads(error.read(100_000))
            message = data.get("message", data.get("error", "")) if isinstance(data, dict) else ""
        except (ValueError, OSError, http.client.HTTPException):
            return ""
        text = shorten(visible(self._hide(str(message))), 300)
        return f": {text}" if text else ""

    def _unreachable(self, error: Exception) -> TracediffError:
        reason = getattr(error, "reason", None) or error
        text = shorten(visible(self._hide(str(reason) or type(error).__name__)), 200)
        return TracediffError(
            "forge-unreachable",
            f"{self._host()} cannot be reached: {text}",
            fix="check the network, the API address and proxies",
        )

    def _failed(self, what: str) -> TracediffError:
        return TracediffError(
            "forge-failed", f"{self._host()} failed: {what}", fix="try again later; check the API address"
        )

    def _hide(self, text: str) -> str:
        return text.replace(self.token, "***")

    def _host(self) -> str:
        return visible(urlsplit(self.base).hostname or "the forge")


def _wait(headers: Message, attempt: int) -> float:
    try:
        asked = float(headers.get("retry-after", ""))
    except ValueError:
        asked = 2.0 ** (attempt - 1)
    return min(max(asked, 0.0), _LONGEST_WAIT_S)


def _next(headers: Message) -> str | None:
    """The address with rel="next" in a Link header."""
    for part in headers.get("link", "").split(","):
        address, _, rest = part.partition(";")
        if 'rel="next"' in rest:
            return address.strip().removeprefix("<").removesuffix(">")
    return None


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
