"""A store that several writers share, and what it does with files that are not what they should be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import duckdb
import msgspec
import pytest

from benchmarks.history import names, points
from tracediff.errors import TracediffError
from tracediff.history.store import Store


def add_all(place: str, first: int, last: int) -> None:
    store = Store(place)
    for one in points(60)[first:last]:
        store.add(one)


def test_what_is_added_is_read_back(tmp_path):
    store = Store(str(tmp_path / "store"))
    (one,) = points(1)
    name, new = store.add(one, source="result.json", link="https://ci.example/1")
    assert new
    (kept,), torn = store.read()
    assert (kept.name, kept.point, kept.source, kept.link) == (
        name,
        one,
        "result.json",
        "https://ci.example/1",
    )
    assert torn == []


def test_the_same_result_twice_is_one_point_whoever_adds_it(tmp_path):
    store = Store(str(tmp_path))
    (one,) = points(1)
    name, _ = store.add(one, source="a.json")
    assert store.add(one, source="b.json", link="https://other.example") == (name, False)
    (kept,), _ = store.read()
    assert kept.source == "a.json"


def test_two_writers_at_once_lose_nothing(tmp_path):
    """Both add forty points, of which twenty are the same."""
    place = str(tmp_path / "store")
    context = get_context("spawn")
    writers = [context.Process(target=add_all, args=(place, *part)) for part in ((0, 40), (20, 60))]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.exitcode for one in writers] == [0, 0]
    kept, torn = Store(place).read()
    assert sorted(one.point.commit for one in kept) == sorted(one.commit for one in points(60))
    assert torn == []
    assert {path.suffix for path in Path(place).iterdir()} == {".json"}, "no part of a file is left"


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_file_that_was_cut_short_is_named_and_the_others_are_read(tmp_path, cut):
    store = Store(str(tmp_path))
    (first, _), (second, _) = (store.add(one) for one in points(2))
    path = tmp_path / first
    path.write_bytes(path.read_bytes()[:cut])
    kept, torn = store.read()
    assert [one.name for one in kept] == [second]
    assert torn == [first]
    assert [store.add(one)[1] for one in points(2)] == [True, False], "added again, it is whole again"
    assert store.read()[1] == []


def test_a_file_that_was_changed_does_not_fit_its_name(tmp_path):
    store = Store(str(tmp_path))
    name, _ = store.add(points(1)[0])
    path = tmp_path / name
    path.write_text(path.read_text().replace('"580.1"', '"580.2"'))
    assert store.read() == ([], [name])


@pytest.mark.parametrize("what", [{"time": "yesterday"}, {"names": ["generation"]}])
def test_a_point_whose_parts_do_not_belong_together_is_named(tmp_path, what):
    store = Store(str(tmp_path))
    (one,) = points(1)
    if "names" in what:
        what = {"measures": msgspec.structs.replace(one.measures, **what)}
    name, _ = store.add(msgspec.structs.replace(one, **what))
    assert store.read() == ([], [name])


def test_a_newer_format_is_an_error_that_names_the_fix(tmp_path):
    store = Store(str(tmp_path))
    name, _ = store.add(points(1)[0])
    path = tmp_path / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 2, "point": {"other": 1}}))
    with pytest.raises(TracediffError) as error:
        store.read()
    assert error.value.slug == "history-version"
    assert "a newer tracediff" in error.value.fix


def test_a_store_behind_a_url(tmp_path):
    """fsspec's own file system in memory stands for an object store."""
    store = Store("memory://bucket/history")
    made = points(3)
    assert [store.add(one)[1] for one in (*made, made[0])] == [True, True, True, False]
    store._folder._files.pipe_file("/bucket/history/" + "0" * 32 + ".json", b"{")
    kept, torn = Store("memory://bucket/history").read()
    assert {one.point.commit for one in kept} == {one.commit for one in made}
    assert torn == ["0" * 32 + ".json"]


def test_a_store_that_is_not_there(tmp_path):
    for place in (str(tmp_path / "none"), "memory://none/at/all"):
        with pytest.raises(TracediffError) as error:
            Store(place).read()
        assert error.value.slug == "history-missing"


def test_a_url_without_fsspec(tmp_path):
    code = "import sys; sys.modules['fsspec'] = None\nfrom tracediff.history.store import Store\nStore('s3://b/h')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "fsspec-missing" in done.stderr


def test_other_tools_read_the_files(tmp_path):
    """The query of docs/investigate.md."""
    store = Store(str(tmp_path))
    made = points(3)
    for one in made:
        store.add(one)
    page = (Path(__file__).parents[2] / "docs/investigate.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"`(SELECT point\.commit.*)`", page)
    query = query.replace("tracediff-history/*.json", f"{tmp_path}/*.json")
    at = names().index("generation")
    assert sorted(duckdb.sql(query).fetchall()) == sorted(
        (one.commit, "generation", one.measures.value[at]) for one in made
    )
