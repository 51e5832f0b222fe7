"""A pull request on GitHub, a merge request on GitLab: found from what CI sets, with one comment of ours kept in place."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any, Literal
from urllib.parse import quote

import httpx

import tracediff
from tracediff.errors import TracediffError, UsageError
from tracediff.formats.files import read_regular
from tracediff.report.escape import shorten, visible

_TRIES = 3
_LONGEST_WAIT_S = 30.0
_MOST_BYTES = 32_000_000
_MOST_PAGES = 1_000
_REFUSALS = {
    401: ("forge-unauthorized", "refused the token"),
    403: ("forge-forbidden", "forbids this to the token"),
    404: ("forge-not-found", "knows no such thing"),
}
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True)
class Api:
    """The API of a forge at `base`, called as the owner of `token`; every failure says what to do about it."""

    base: httpx.URL
    token: str
    headers: dict[str, str]
    fixes: Mapping[int, str]  # of the statuses that mean something else on each forge

    def is_private(self) -> bool:
        """Whether nobody on the way can read the token: https, or this very machine."""
        return self.base.scheme == "https" or self.base.host in ("localhost", "127.0.0.1", "::1")

    def pages(self, path: str, query: str) -> Iterator[Any]:
        """Yield the items of a list, page by page, as long as they are asked for."""
        address = httpx.URL(f"{self.base}{path}?{query}")
        for _ in range(_MOST_PAGES):
            answer = self._call("GET", address)
            found = self._decoded(answer)
            if not isinstance(found, list):
                raise self._failed("a list was expected")
            yield from found
            if "next" not in answer.links:
                return
            address = address.join(answer.links["next"]["url"])
            if (address.scheme, address.netloc) != (self.base.scheme, self.base.netloc):
                raise self._failed("the next page is on another server")

    def call(self, method: str, path: str, data: object = None) -> Any:
        """Call the API once it answers, and decode what it says.

        Raises `TracediffError`: forge-unauthorized, forge-forbidden, forge-rate-limit, forge-not-found, forge-refused,
        forge-redirected, forge-failed, forge-unreachable.
        """
        return self._decoded(self._call(method, httpx.URL(f"{self.base}{path}"), data))

    def _call(self, method: str, address: httpx.URL, data: object = None) -> httpx.Response:
        """A redirect is not followed: it would take the token along. Creating is not tried twice: it may have happened."""
        headers = {
            "User-Agent": f"tracediff/{tracediff.__version__}", "Accept-Encoding": "identity", **self.headers
        }  # fmt: skip
        tries = 1 if method == "POST" else _TRIES
        trusted = ssl.create_default_context()  # what this machine trusts, with a company's own authorities
        with httpx.Client(headers=headers, timeout=30.0, verify=trusted) as client:
            for attempt in range(1, tries + 1):
                try:
                    with client.stream(method, address, json=data) as sent:
                        answer = _whole(sent)
                except httpx.HTTPError as error:
                    if attempt == tries:
                        raise self._unreachable(error) from None
                    sleep(float(attempt))
                    continue
                if answer.is_success:
                    return answer
                if attempt == tries or not (answer.is_server_error or answer.status_code == 429):
                    raise self._explained(answer)
                sleep(_wait(answer, attempt))
        raise AssertionError  # the last try returns or raises

    def _decoded(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except (ValueError, RecursionError):
            raise self._failed("its answer is no JSON") from None

    def _explained(self, answer: httpx.Response) -> TracediffError:
        code, host, said = answer.status_code, self._host(), self._said(answer)
        spent = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
        if code == 429 or (code == 403 and spent):
            limited = f"{host} limits the rate of calls ({code}){said}"
            return TracediffError("forge-rate-limit", limited, fix="try again later")
        if code in _REFUSALS:
            slug, what = _REFUSALS[code]
            return TracediffError(slug, f"{host} {what} ({code}){said}", fix=self.fixes[code])
        if answer.is_redirect or 300 <= code < 400:
            return TracediffError(
                "forge-redirected",
                f"{host} points elsewhere ({code}), and a token is not sent on",
                fix="name the repository and the API address by their present names",
            )
        if code in (400, 409, 413, 422):
            return TracediffError("forge-refused", f"{host} refused the comment ({code}){said}", fix="see what it says")  # fmt: skip
        return self._failed(f"status {code}{said}")

    def _said(self, answer: httpx.Response) -> str:
        """What the API says about it, fit to print."""
        try:
            data = answer.json()
        except (ValueError, RecursionError):
            return ""
        message = data.get("message", data.get("error", "")) if isinstance(data, dict) else ""
        text = self._printable(str(message), 300)
        return f": {text}" if text else ""

    def _unreachable(self, error: Exception) -> TracediffError:
        text = self._printable(str(error) or type(error).__name__, 200)
        return TracediffError(
            "forge-unreachable",
            f"{self._host()} cannot be reached: {text}",
            fix="check the network, the API address and proxies",
        )

    def _failed(self, what: str) -> TracediffError:
        return TracediffError(
            "forge-failed", f"{self._host()} failed: {what}", fix="try again later; check the API address"
        )

    def _printable(self, text: str, longest: int) -> str:
        return shorten(visible(text.replace(self.token, "***")), longest)

    def _host(self) -> str:
        return visible(self.base.host)


def _wait(answer: httpx.Response, attempt: int) -> float:
    try:
        asked = float(answer.headers.get("retry-after", ""))
    except ValueError:
        asked = 2.0 ** (attempt - 1)
    return min(max(asked, 0.0), _LONGEST_WAIT_S)


@dataclass(frozen=True)
class Posted:
    """What happened, and where the comment is."""

    done: Literal["created", "updated", "unchanged"]
    place: str


@dataclass(frozen=True)
class Forge:
    """The comments of one pull request: on GitHub those of its issue, on GitLab the notes of the merge request."""

    api: Api
    thread: str  # path of the comments
    comments: str  # path of one of them, without its number
    query: str
    update: str
    name: str  # of a user
    # a comment, and who the token is: None where the API does not tell
    is_ours: Callable[[dict[str, Any], Any], bool]
    place: Callable[[dict[str, Any]], str]

    def post(self, body: str, marker: str) -> Posted:
        """Update the comment that ends with the marker and is ours, else create one."""
        own = self._own()
        for comment in self.api.pages(self.thread, self.query):
            if not _ends(comment, marker) or not self.is_ours(comment, own):
                continue
            if _same(comment["body"], body):
                return Posted("unchanged", self.place(comment))
            changed = self.api.call(self.update, f"{self.comments}/{comment['id']}", {"body": body})
            return Posted("updated", self.place(changed if isinstance(changed, dict) else comment))
        created = self.api.call("POST", self.thread, {"body": body})
        return Posted("created", self.place(created if isinstance(created, dict) else {}))

    def _own(self) -> Any:
        try:
            user = self.api.call("GET", "/user")
        except TracediffError as error:
            if error.slug in ("forge-forbidden", "forge-not-found"):
                return None  # the token of an app or a job is nobody
            raise
        return user.get(self.name) if isinstance(user, dict) else None


def _ends(comment: Any, marker: str) -> bool:
    if not isinstance(comment, dict) or not isinstance(comment.get("id"), int):
        return False
    _, _, last = str(comment.get("body") or "").rstrip().rpartition("\n")
    return last.strip() == marker


def _same(one: str, other: str) -> bool:
    """Forges trim bodies and may store other line ends."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


def _whole(sent: httpx.Response) -> httpx.Response:
    """An answer with what was sent, never unpacked: 7 MB of gzip hold gigabytes. Nothing of one that is larger than any is."""
    said = b""
    for part in sent.iter_raw():
        said += part
        if len(said) > _MOST_BYTES:
            said = b""
            break
    headers = [(name, value) for name, value in sent.headers.multi_items() if name != "content-encoding"]
    return httpx.Response(sent.status_code, headers=headers, content=said, request=sent.request)


def github(environment: Mapping[str, str], repository: str | None, number: int | None) -> Forge:
    """Raises `TracediffError`: token-missing, forge-context."""
    token = _token(environment, ("GITHUB_TOKEN", "GH_TOKEN"))
    repository = repository or environment.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.match(repository):
        raise _context("the repository", "--repo OWNER/NAME, or run it where GITHUB_REPOSITORY is set")
    number = number or _event_number(environment)
    if not number:
        raise _context("the pull request", "--pr NUMBER; in a workflow, on: pull_request")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    fixes = {
        401: "set GITHUB_TOKEN to a token that is valid",
        403: "the job needs `permissions: pull-requests: write`; a pull request from a fork gets no such token: see docs/gate.md",
        404: f"check that {repository} has a pull request {number}, and that the token may read it",
    }

    def is_ours(comment: dict[str, Any], own: Any) -> bool:
        """Anybody may write a comment with the marker: only one by the token's user, or else by a bot, is ours."""
        author = comment.get("user") or {}
        return bool(author.get("login") == own if own else author.get("type") == "Bot")

    return Forge(
        Api(_base(environment.get("GITHUB_API_URL") or "https://api.github.com"), token, headers, fixes),
        thread=f"/repos/{repository}/issues/{number}/comments",
        comments=f"/repos/{repository}/issues/comments",
        query="per_page=100",
        update="PATCH",
        name="login",
        is_ours=is_ours,
        place=lambda comment: str(comment.get("html_url", "the pull request")),
    )


def gitlab(environment: Mapping[str, str], project: str | None, number: int | None) -> Forge:
    """Raises `TracediffError`: token-missing, forge-context."""
    token = _token(environment, ("GITLAB_TOKEN",))
    project = project or environment.get("CI_PROJECT_ID", "")
    if not project:
        raise _context("the project", "--repo ID or PATH, or run it where CI_PROJECT_ID is set")
    number = number or _positive(environment.get("CI_MERGE_REQUEST_IID", ""))
    if not number:
        raise _context("the merge request", "--pr NUMBER; in a pipeline, rules for merge_request_event")
    fixes = {
        401: "set GITLAB_TOKEN to a project access token that is valid",
        403: "the token needs the scope api and the role Reporter or more",
        404: f"check that the project has a merge request {number}, and that the token may read it",
    }

    def is_ours(comment: dict[str, Any], own: Any) -> bool:
        author = comment.get("author") or {}
        return not comment.get("system") and (own is None or author.get("id") == own)

    base = _base(environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4")
    thread = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
    return Forge(
        Api(base, token, {"PRIVATE-TOKEN": token}, fixes),
        thread=thread,
        comments=thread,
        query="per_page=100&sort=asc&order_by=created_at",
        update="PUT",
        name="id",
        is_ours=is_ours,
        place=lambda comment: f"note {comment.get('id', '?')} on merge request {number}",
    )


def _token(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    token = next((found for name in names if (found := environment.get(name, "").strip())), "")
    if not token or not token.isascii() or not token.isprintable():
        raise TracediffError(
            "token-missing",
            f"no usable token in {' or '.join(names)}",
            fix="set it in the environment; see docs/gate.md",
        )
    return token


def _base(address: str) -> httpx.URL:
    try:
        base = httpx.URL(address.rstrip("/"))
    except httpx.InvalidURL:
        base = httpx.URL()
    if base.scheme not in ("https", "http") or not base.host:
        raise _context("the address of the API", "GITHUB_API_URL or CI_API_V4_URL is an https address")
    return base


def _event_number(environment: Mapping[str, str]) -> int | None:
    """The pull request of the event that started the workflow; of a workflow_run the only one that it is for."""
    try:
        event = json.loads(read_regular(Path(environment.get("GITHUB_EVENT_PATH", "")), _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        event = {}
    event = event if isinstance(event, dict) else {}
    issue, run = event.get("issue"), event.get("workflow_run")
    found = [event.get("pull_request")]
    if isinstance(issue, dict) and "pull_request" in issue:
        found.append(issue)
    if isinstance(run, dict) and isinstance(of_run := run.get("pull_requests"), list) and len(of_run) == 1:
        found += of_run
    numbers = [_positive(one.get("number")) for one in found if isinstance(one, dict)]
    ref = re.match(r"refs/pull/(\d+)/", environment.get("GITHUB_REF", ""))
    numbers.append(_positive(ref[1]) if ref else None)
    return next((number for number in numbers if number), None)


def _positive(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"[1-9]\d{0,17}", text) else None


def _context(what: str, fix: str) -> TracediffError:
    return UsageError("forge-context", f"{what} is not known", fix=fix)
