"""What the documentation says is so: the worked example of docs/method.md, the files that tables name, the pages that the program names, and sentences that are short."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from fixtures.builders import TraceBuilder
from tests.tiny import ROOT
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading

US = 1000
PID, TID = 1, 1


def _worked_example(path):
    label = "[Executor] _forward_step {}: 0 ctx reqs, 0 ctx tokens, 16 gen reqs"
    trace = TraceBuilder().process(PID).thread(PID, TID).device(0)
    trace.range(TID, label.format(1), -20 * US, -4 * US)
    trace.range(TID, label.format(2), 33 * US, 45 * US)
    trace.range(TID, "_schedule", 13 * US, 20 * US)
    trace.gc(TID, 14 * US, 16 * US)
    trace.api(TID, "cudaLaunchKernel", -15 * US, -5 * US, corr=1)
    trace.api(TID, "cudaStreamSynchronize", 2 * US, 13 * US, corr=9)
    trace.api(TID, "cudaLaunchKernel", 22 * US, 27 * US, corr=2)
    trace.api(TID, "cudaLaunchKernel", 35 * US, 44 * US, corr=3)
    trace.kernel(1, 0, 10 * US, name="k0")
    trace.kernel(2, 30 * US, 40 * US, name="k1")
    trace.kernel(3, 60 * US, 70 * US, name="k2")
    trace.write(path)


def test_the_worked_example_of_the_method(tmp_path):
    path = tmp_path / "example.sqlite"
    _worked_example(path)
    reduction = reduce_file(path, Reading())
    (period,) = reduction.periods.to_dicts()
    assert period["end_ns"] - period["start_ns"] == 60 * US
    expected = {
        "compute": 20, "host_sync": 3, "host_work": 1 + 4 + 2, "gc": 2, "launch_api": 5 + 4, "launch_latency": 3 + 16,
        "comm": 0, "memcpy": 0, "dependency": 0, "graph_internal": 0, "host_api": 0, "gil_wait": 0, "unattributed": 0,
    }  # fmt: skip
    assert {name: period[name] for name in expected} == {name: us * US for name, us in expected.items()}
    assert reduction.residual_ns == 0
    work = {
        row["place"].split(",")[0]: 0
        for row in reduction.idle.iter_rows(named=True)
        if row["cause"] == "host_work"
    }
    for row in reduction.idle.iter_rows(named=True):
        if row["cause"] == "host_work":
            work[row["place"].split(",")[0]] += row["ns"]
    assert work == {"_schedule": 5 * US, "outside any range": 2 * US}


def _named(page: str) -> list[str]:
    """What the tables of a page name in backticks: PATH.py, PATH.sql, and either with :NAME."""
    rows = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return sorted(set(re.findall(r"`([\w/]+\.(?:py|sql)(?::\w+)?)`", "\n".join(rows))))


def _is_there(named: str) -> bool:
    """Whether there is such a file, and in it what is named."""
    path, _, name = named.partition(":")
    folders = (ROOT, ROOT / "tracediff", ROOT / "tracediff/accounting/sql")
    files = [folder / path for folder in folders if (folder / path).is_file()]
    if "/" not in path and not files:  # of a folder of companions, in the same row
        files = list((ROOT / "tracediff/companions/ncu").glob(path))
    defined = rf"^-- {name}: " if path.endswith(".sql") else rf"^(def|class) {name}\b"
    return bool(files) and bool(
        not name or re.search(defined, files[0].read_text(encoding="utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_tables_for_contributors_name_what_is_there(page):
    names = _named(page)
    assert len(names) > 20
    assert [named for named in names if not _is_there(named)] == []


def _anchors(page: str) -> set[str]:
    """What `#...` may follow the name of a page: its headings, as the site and forges spell them."""
    heads = re.findall(r"(?m)^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


def test_pages_that_the_program_names_are_there():
    """In messages, options, comments and what `init` writes; links of pages are checked as the site is built."""
    files = [ROOT / "action.yml", *(ROOT / "tracediff").rglob("*.py"), *(ROOT / "templates").rglob("*.*")]
    named = {
        (page, anchor)
        for file in files
        for page, anchor in re.findall(
            r"(?<![\w/])(docs/[\w-]+\.md)(?:#([\w-]+))?", file.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 15
    wrong = [(page, anchor) for page, anchor in named if not (ROOT / page).exists()]
    assert wrong == [] and [one for one in named if one[1] and one[1] not in _anchors(one[0])] == []


def _sentences(text: str) -> list[int]:
    """Words of each sentence: without code, tables, headings and pictures. Code inside a line is one word."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    found = []
    for before, token in pairwise(tokens):
        if token.type == "inline" and before.type == "paragraph_open":
            parts = {"text": "{}", "code_inline": "code", "softbreak": " "}
            line = "".join(parts.get(one.type, "").format(one.content) for one in token.children or ())
            for sentence in re.split(r"(?<=[.!?])\W*\s", line.replace("...", "")):
                found.append(sum(bool(re.search(r"\w", word)) for word in sentence.split()))
    return [words for words in found if words]


def test_sentences_are_counted_by_hand():
    assert _sentences("# A head\n\nTwo words. Then `a b c` (and\n[two more](x.md)).\n\n- one item\n\n| a | b |\n|-|-|\n| c | d |\n") == [2, 5, 2]  # fmt: skip


PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_sentences_are_short():
    """Many readers are not native speakers of English: 20 words on average, 40 at most."""
    pages = {page.name: _sentences(page.read_text(encoding="utf-8")) for page in PAGES}
    long = [name for name, words in pages.items() if sum(words) > 20 * len(words) or max(words) > 40]
    assert long == []
