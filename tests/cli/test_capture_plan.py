"""`capture --plan` shows command lines: it runs nothing, so it needs nothing to run them with."""

from __future__ import annotations

import pytest

from tests.cli.checks import expect_error
from tracediff.capture import machine as nsys_features

WORDS = ("capture", "--baseline", "python a.py", "--candidate", "python b.py", "-n", "1")


@pytest.fixture(autouse=True)
def no_nsys(monkeypatch):
    monkeypatch.setattr(nsys_features, "find_nsys", lambda: None)


def test_a_plan_is_shown_without_nsys(run, tmp_path):
    code, out, err = run(*WORDS, "--plan")
    assert code == 0 and "there is no nsys here" in err
    lines = [line for line in out.splitlines() if not line.startswith("#")]
    assert [line.split(" ")[0] for line in lines] == ["nsys", "nsys"]
    assert lines[0].endswith("python a.py") and lines[1].endswith("python b.py")
    assert not list(tmp_path.iterdir())


def test_a_capture_is_not_begun_without_nsys(run, tmp_path):
    expect_error(run(*WORDS), "nsys-missing")
    assert not list(tmp_path.iterdir())
