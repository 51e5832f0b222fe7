"""`tracediff comment` against forges that run here: posted once, updated in place, and every refusal explained."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.checks import expect_error
from tests.report import sample
from tracediff.cli import forges
from tracediff.errors import TracediffError
from tracediff.model import encode
from tracediff.report.markdown import LIMIT, MARKER, length, render_markdown
from tracediff.report.pictures import FILES

TOKEN = "ghp_verySecret123"
BOT = {"login": "github-actions[bot]", "type": "Bot", "id": 41898282}
ME = {"login": "me", "type": "User", "id": 7}
OTHER = {"login": "mallory", "type": "User", "id": 8}


class Forge:
    """GitHub's and GitLab's comments in memory, two a page. `fail` answers (method, path pattern) with a status."""

    def __init__(self) -> None:
        self.comments: list[dict] = []
        self.calls: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.waits: list[float] = []  # seconds that its client waited
        self.user: dict | None = None  # None: the token is an app's, and /user is forbidden
        self.fail: list[tuple[str, str, int, dict, object, int]] = []  # ..., how often
        self.redirect = ""
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def answer(self, status: int, data: object, headers: dict | None = None) -> None:
                body = data if isinstance(data, bytes) else json.dumps(data).encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                sent = json.loads(self.rfile.read(size)) if size else {}
                url = urlsplit(self.path)
                forge.calls.append((self.command, url.path))
                given = self.headers.get("Authorization", "").removeprefix("Bearer ") or self.headers.get(
                    "PRIVATE-TOKEN", ""
                )
                forge.tokens.add(given)
                for number, (method, pattern, status, headers, data, left) in enumerate(forge.fail):
                    if method == self.command and re.search(pattern, url.path) and left:
                        forge.fail[number] = (method, pattern, status, headers, data, left - 1)
                        return self.answer(status, data, headers)
                return self.answer(*forge.route(self.command, url, sent))

            do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def route(self, method, url, sent):
        if url.path == "/user":
            return (
                (403, {"message": "Resource not accessible by integration"})
                if self.user is None
                else (200, self.user)
            )
        if method == "GET":
            page = int(parse_qs(url.query).get("page", ["1"])[0])
            start = 2 * (page - 1)
            more = len(self.comments) > start + 2
            link = f'<{self.address}{url.path}?per_page=100&page={page + 1}>; rel="next", <x>; rel="last"'
            return 200, self.comments[start : start + 2], {"Link": link} if more else {}
        if method == "POST":
            self.comments.append(self.made(len(self.comments) + 100, sent["body"], self.user or BOT))
            return 201, self.comments[-1]
        number = int(url.path.rpartition("/")[2])
        found = next(one for one in self.comments if one["id"] == number)
        found["body"] = sent["body"]
        return 200, found

    def made(self, number, body, author):
        return {
            "id": number,
            "body": body.strip(),
            "user": author,
            "author": author,
            "html_url": f"https://forge/c/{number}",
        }

    def did(self):
        return [call for call in self.calls if call[0] != "GET"]


@pytest.fixture
def forge(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "GH_TOKEN", "GITLAB_TOKEN", "GITHUB_TOKEN", "GITHUB_REF", "GITHUB_EVENT_PATH",
                 "GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_REPOSITORY", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    made = Forge()
    monkeypatch.setattr(forges, "sleep", made.waits.append)
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def github(forge, monkeypatch, tmp_path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 12}}))
    for name, value in {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": forge.address, "GITHUB_REPOSITORY": "owner/repo",
                        "GITHUB_EVENT_PATH": str(event)}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return forge


@pytest.fixture
def gitlab(forge, monkeypatch):
    forge.user = ME
    for name, value in {"GITLAB_TOKEN": TOKEN, "CI_API_V4_URL": forge.address, "CI_PROJECT_ID": "99",
                        "CI_MERGE_REQUEST_IID": "3"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return forge


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "result.json").write_bytes(encode(sample.full()))
    return "result.json"


BODY = render_markdown(sample.full()).strip()


# GitHub


def test_a_comment_is_created_then_left_then_updated(github, run, saved):
    code, out, err = run("comment", saved, "--github")
    assert (code, out, err) == (0, "created: https://forge/c/100\n", "")
    assert github.did() == [("POST", "/repos/owner/repo/issues/12/comments")]
    assert [one["body"] for one in github.comments] == [BODY]
    assert run("comment", saved, "--github")[1] == "unchanged: https://forge/c/100\n"
    code, out, _ = run("comment", saved, "--github", "--fail-on", "step:+3%")
    assert (code, out) == (0, "updated: https://forge/c/100\n")
    assert github.did()[1:] == [("PATCH", "/repos/owner/repo/issues/comments/100")]
    assert len(github.comments) == 1 and "**failed**" in github.comments[0]["body"]
    assert github.tokens == {TOKEN}


def test_its_comment_is_found_on_a_later_page(github, run, saved):
    github.comments = [github.made(number, "talk", OTHER) for number in range(5)]
    github.comments.append(github.made(50, f"old\r\n{MARKER}", BOT))
    github.comments += [github.made(number, "more talk", OTHER) for number in range(60, 65)]
    assert run("comment", saved, "--github")[1].startswith("updated")
    assert github.comments[5]["body"] == BODY + "\n" or github.comments[5]["body"].strip() == BODY
    assert len(github.comments) == 11
    pages = [call for call in github.calls if call[1].endswith("/comments")]
    assert len(pages) == 3  # it looks no further


def test_a_comment_of_somebody_else_is_left_alone(github, run, saved):
    github.comments = [
        github.made(1, f"All is well, trust me\n{MARKER}", OTHER),
        github.made(2, f"{MARKER} look", BOT),
        github.made(3, "<!-- tracediff:b200 -->\nanother key", BOT),
    ]
    before = [dict(one) for one in github.comments]
    assert run("comment", saved, "--github")[1].startswith("created")
    assert github.comments[:3] == before


def test_a_user_s_token_updates_that_user_s_comment(github, run, saved):
    github.user = ME
    github.comments = [github.made(1, f"x\n{MARKER}", BOT), github.made(2, f"x\n{MARKER}", ME)]
    assert run("comment", saved, "--github")[1] == "updated: https://forge/c/2\n"


def test_keys_keep_comments_apart(github, run, saved):
    for key in ("h200", "b200", "h200"):
        assert run("comment", saved, "--github", "--key", key)[0] == 0
    assert [one["body"].splitlines()[-1] for one in github.comments] == [
        "<!-- tracediff:h200 -->",
        "<!-- tracediff:b200 -->",
    ]
    assert run("comment", saved, "--github", "--key", "a b")[0] == 2


def test_repository_and_number_may_be_given(github, run, saved, monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY")
    monkeypatch.delenv("GITHUB_EVENT_PATH")
    expect_error(run("comment", saved, "--github"), "forge-context", 2)
    expect_error(run("comment", saved, "--github", "--repo", "a/b"), "forge-context", 2)
    for name in ("../x", "a/..", "a/b/c", "a/b?x", "a/b\n", "a"):
        expect_error(run("comment", saved, "--github", "--repo", name, "--pr", "4"), "forge-context", 2)
    assert run("comment", saved, "--github", "--repo", "a/b", "--pr", "4")[0] == 0
    assert github.did() == [("POST", "/repos/a/b/issues/4/comments")]


@pytest.mark.parametrize(
    ("event", "ref", "number"),
    [
        ({"pull_request": {"number": 5}}, "", 5),
        ({"issue": {"number": 6, "pull_request": {}}}, "", 6),
        ({"issue": {"number": 6}}, "", None),  # an issue is no pull request
        ({"workflow_run": {"pull_requests": [{"number": 7}]}}, "", 7),
        ({"workflow_run": {"pull_requests": []}}, "", None),  # from a fork
        ({"workflow_run": {"pull_requests": [{"number": 7}, {"number": 8}]}}, "", None),
        ({"pull_request": {"number": "5; rm"}}, "refs/pull/9/merge", 9),
        ({"pull_request": {"number": -1}}, "", None),
        ([1], "refs/heads/main", None),
        ("no json", "refs/pull/10/head", 10),
    ],
)
def test_the_pull_request_of_an_event(event, ref, number, tmp_path):
    path = tmp_path / "event.json"
    path.write_text(event if isinstance(event, str) else json.dumps(event))
    environment = {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REF": ref,
    }
    try:
        thread = forges.github(environment, None, None).thread
    except TracediffError as error:
        thread = error.slug
    assert thread == (f"/repos/a/b/issues/{number}/comments" if number else "forge-context")


# GitLab


def test_gitlab(gitlab, run, saved):
    gitlab.comments = [
        gitlab.made(1, f"faked\n{MARKER}", OTHER),
        gitlab.made(2, "x", ME),
        gitlab.made(3, "y", ME),
    ]
    assert run("comment", saved, "--gitlab")[1] == "created: note 103 on merge request 3\n"
    assert run("comment", saved, "--gitlab", "--top", "1")[1] == "updated: note 103 on merge request 3\n"
    path = "/projects/99/merge_requests/3/notes"
    assert gitlab.did() == [("POST", path), ("PUT", f"{path}/103")]
    assert gitlab.tokens == {TOKEN}


def test_a_project_of_gitlab_may_be_a_path(gitlab, run, saved):
    assert run("comment", saved, "--gitlab", "--repo", "group/sub/project", "--pr", "8")[0] == 0
    assert gitlab.did() == [("POST", "/projects/group%2Fsub%2Fproject/merge_requests/8/notes")]


def test_the_forge_of_the_job(gitlab, run, saved, monkeypatch):
    assert run("comment", saved)[0] == 2
    monkeypatch.setenv("GITLAB_CI", "true")
    assert run("comment", saved)[1].startswith("created")


# What goes wrong


@pytest.mark.parametrize(
    ("status", "headers", "slug", "said"),
    [
        (401, {}, "forge-unauthorized", "GITHUB_TOKEN"),
        (403, {}, "forge-forbidden", "pull-requests: write"),
        (403, {"x-ratelimit-remaining": "0"}, "forge-rate-limit", "later"),
        (403, {"retry-after": "60"}, "forge-rate-limit", "later"),
        (429, {}, "forge-rate-limit", "later"),
        (404, {}, "forge-not-found", "pull request 12"),
        (422, {}, "forge-refused", "says"),
        (413, {}, "forge-refused", "says"),
        (301, {"Location": "http://evil.example/"}, "forge-redirected", "present names"),
        (307, {"Location": "/elsewhere"}, "forge-redirected", "present names"),
        (500, {}, "forge-failed", "later"),
        (418, {}, "forge-failed", "later"),
    ],
)
def test_every_refusal_is_explained(status, headers, slug, said, github, run, saved):
    for method in ("GET", "POST", "PATCH") if status in (403, 429, 500) else ("GET",):
        _refused(method, status, headers, slug, said, github, run, saved)


def _refused(method, status, headers, slug, said, github, run, saved):
    github.calls.clear()
    if method == "PATCH":
        github.comments = [github.made(1, f"old\n{MARKER}", BOT)]
    message = {"message": f"Nope {TOKEN} \x1b[31m" + "long " * 300}
    github.fail = [(method, "comments", status, headers, message, 99)]
    text = expect_error(run("comment", saved, "--github"), slug)
    assert said in text and "127.0.0.1" in text
    assert TOKEN not in text and "\x1b" not in text and len(text) < 900
    if slug != "forge-redirected":
        assert "Nope *** \\x1b[31m" in text
    tries = 3 if status in (429, 500) and method != "POST" else 1  # a comment is never posted twice
    assert len([call for call in github.calls if call[0] == method and "comments" in call[1]]) == tries


def test_a_bad_token_is_told_even_where_the_list_is_public(github, run, saved):
    github.fail = [("GET", "/user", 401, {}, {"message": "Bad credentials"}, 9)]
    assert "Bad credentials" in expect_error(run("comment", saved, "--github"), "forge-unauthorized")
    assert github.did() == []


def test_a_hiccup_is_waited_out(github, run, saved):
    github.fail = [
        ("GET", "comments", 502, {}, b"<html>", 2),
        ("GET", "/user", 429, {"retry-after": "1"}, {}, 1),
    ]
    assert run("comment", saved, "--github")[0] == 0
    assert len(github.comments) == 1
    assert sorted(github.waits) == [1, 1, 2]


def test_what_is_no_json(github, run, saved):
    github.fail = [("GET", "comments", 200, {}, b"<html>hello", 9)]
    expect_error(run("comment", saved, "--github"), "forge-failed")
    github.fail = [("GET", "comments", 200, {}, {"a": 1}, 9)]
    expect_error(run("comment", saved, "--github"), "forge-failed")
    github.fail = [
        ("GET", "comments", 200, {}, [None, 3, {"id": "x", "body": MARKER}, {"body": None, "id": 4}], 9)
    ]
    assert run("comment", saved, "--github")[0] == 0


def test_an_answer_is_not_unpacked(github, run, saved, monkeypatch):
    """Gzip that holds a thousand times as much; nor is one read that is larger than any is."""
    read, whole = [], forges._whole
    monkeypatch.setattr(forges, "_whole", lambda sent: read.append(whole(sent)) or read[-1])
    bomb = gzip.compress(b"[" + b" " * 10_000_000)
    github.fail.append(("GET", "", 200, {"Content-Encoding": "gzip"}, bomb, 9))
    assert "is no JSON" in expect_error(run("comment", saved, "--github"), "forge-failed")
    assert [one.content for one in read] == [bomb]
    monkeypatch.setattr(forges, "_MOST_BYTES", 1_000)
    github.fail[:] = [("GET", "", 200, {}, b"[" + b" " * 5_000, 9)]
    assert "is no JSON" in expect_error(run("comment", saved, "--github"), "forge-failed")
    assert [one.content for one in read] == [bomb, b""]


def test_the_token_goes_to_no_other_server(github, run, saved, monkeypatch):
    other = Forge()
    github.fail = [("GET", "comments", 200, {"Link": f'<{other.address}/next>; rel="next"'}, [], 9)]
    assert "another server" in expect_error(run("comment", saved, "--github"), "forge-failed")
    github.fail = [("GET", "comments", 302, {"Location": f"{other.address}/next"}, {}, 9)]
    expect_error(run("comment", saved, "--github"), "forge-redirected")
    assert other.calls == [] and other.tokens == set()
    other.server.shutdown()
    other.server.server_close()


def test_the_network_is_down(github, run, saved, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        text = expect_error(run("comment", saved, "--github"), "forge-unreachable")
    assert "refused" in text.lower() and TOKEN not in text
    monkeypatch.setenv("GITHUB_API_URL", "https://no-such-host.invalid")
    expect_error(run("comment", saved, "--github"), "forge-unreachable")


def test_a_token_in_the_clear_is_warned_of(github, run, saved, monkeypatch):
    assert "in the clear" not in run("comment", saved, "--github")[2]
    monkeypatch.setenv("GITHUB_API_URL", "http://no-such-host.invalid")
    assert "warning: the API's address is http" in run("comment", saved, "--github")[2]


@pytest.mark.parametrize("token", ["", " ", "a\nb", "gh\u00fcp"])
def test_no_token(token, github, run, saved, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", token)
    text = expect_error(run("comment", saved, "--github"), "token-missing")
    assert "GITHUB_TOKEN" in text
    assert github.calls == []
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    if not token.strip():
        assert run("comment", saved, "--github")[0] == 0


def test_a_dry_run_needs_no_token(forge, run, saved):
    code, out, _ = run("comment", saved, "--dry-run", "--link", "https://ci.example/1")
    assert code == 0 and out.endswith(f"{MARKER}\n") and "[HTML report](https://ci.example/1)" in out
    assert run("comment", saved, "--dry-run", "--link", "javascript:x")[0] == 2
    assert forge.calls == []


def test_a_huge_result_is_posted_whole(github, run, tmp_path):
    (tmp_path / "large.json").write_bytes(encode(sample.large()))
    assert run("comment", "large.json", "--github", "--top", "9999")[0] == 0
    assert 5_000 < length(github.comments[0]["body"]) < LIMIT


def test_several_results_are_one_comment(github, run, saved, tmp_path):
    (tmp_path / "minimal.json").write_bytes(encode(sample.minimal()))
    for done in ("created", "unchanged"):
        assert run("comment", saved, "minimal.json", "--github")[:2] == (0, f"{done}: https://forge/c/100\n")
    body = github.comments[0]["body"]
    assert body.startswith("2 benchmarks: ") and "**`result`**" in body and "**`minimal`**" in body
    assert run("comment", saved, "--github")[1].startswith("updated")  # the marker is the same


def test_results_of_one_name_are_told_apart_by_their_folders(run, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_bytes(encode(sample.minimal()))
    code, out, _ = run("comment", "a/result.json", "b/result.json", "--dry-run")
    assert code == 0 and "**`a/result`**" in out and "**`b/result`**" in out
    assert run("comment", "a/result.json", "a/result.json", "--dry-run")[0] == 2


AT = "https://forge.example/jobs/7/artifacts/raw/drawn"


def test_the_waterfall_is_shown_where_it_will_be_read(github, run, saved, tmp_path):
    drawn = tmp_path / "drawn"
    drawn.mkdir()
    for name in (*FILES, "mine.png"):  # of an earlier result, which had every picture
        (drawn / name).write_bytes(b"old")
    assert run("comment", saved, "--github", "--pictures", str(drawn), "--pictures-at", f"{AT}/")[0] == 0
    assert [one.name for one in drawn.iterdir() if one.read_bytes() == b"old"] == ["mine.png"]
    (comment,) = github.comments
    assert f"]({AT}/waterfall.png)\n" in comment["body"]
    assert (drawn / "waterfall.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = run("comment", saved, "--github", "--pictures-at", "file:///drawn")
    assert code == 2 and "--pictures-at" in err and "an http or https address" in err


def test_pictures_of_several_results_lie_in_folders_of_their_own(run, saved, tmp_path):
    drawn, other = tmp_path / "drawn", tmp_path / "prefill.json"
    other.write_bytes(encode(sample.full()))
    _, out, _ = run("comment", saved, str(other), "--dry-run", "--pictures", str(drawn), "--pictures-at", AT)
    assert [f"]({AT}/{number}/waterfall.png)" in out for number in (1, 2, 3)] == [True, True, False]
    assert sorted(path.name for path in drawn.iterdir()) == ["1", "2"]
    assert all((drawn / number / "waterfall.png").is_file() for number in "12")
