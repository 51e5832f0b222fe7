"""Calls to a forge's HTTP API: JSON in, JSON out, every failure an error that says what to do about it.

The token goes only to the API it was given for: redirects are not followed, pages only on the same server, and it is in
no message.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

import tracediff
from tracediff.errors import TracediffError
from tracediff.report.escape import shorten, visible

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
