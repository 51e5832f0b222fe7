"""What once failed, and a few other inputs of every kind: each ends in a right result or an error that the documentation lists.

`python -m tests.fuzz` tries as many as there is time for.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.__main__ import CORPUS, attempt, smaller
from tests.fuzz.targets import SAME, TARGETS

FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())
FEW = 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed(path):
    """A file is called after what it ends in: SLUG.WHAT_IT_IS."""
    word, what = attempt(path.parent.name, path.read_bytes())
    assert word == path.name.partition(".")[0], what


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_few_of_every_kind(name):
    target, rng = TARGETS[name], Random(name)
    seeds = target.seeds()
    for _ in range(FEW):
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2))):
            data = target.change(data, rng)
        word, what = attempt(name, data)
        assert word is not None, f"{what}: {data[:1_000]!r}"


# Those whose first input is none, and those that begin with that of `rows` or of `kept`.
OTHERS = ("packed", "unpack", "forge", "sql", "moderate", "metadata", "run", "pages", "bytes")


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in OTHERS])
def test_what_mutations_start_from_is_read(name):
    """Else every input would end in the same error, and nothing would be tried."""
    for data in TARGETS[name].seeds()[:1]:
        assert attempt(name, data)[0] in ("result", SAME)


def test_a_fault_is_seen_and_made_smaller(monkeypatch):
    def run(data, folder):
        if b"wrong" in data:
            raise KeyError("nobody foresaw it")
        return "result"

    monkeypatch.setitem(TARGETS, "policy", TARGETS["policy"]._replace(run=run))
    assert attempt("policy", b"fine") == ("result", "")
    word, what = attempt("policy", b"all of this is wrong indeed")
    assert word is None and what.startswith("KeyError  in test_corpus.py:")
    assert smaller(b"all of this is wrong indeed", lambda one: attempt("policy", one)[1] == what) == b"wrong"
