"""What an agent can name: files below the given folders, and nothing that a link or a bundle brings in from elsewhere."""

from __future__ import annotations

import json

import pytest

from tests.serving import serving
from tracediff.agents.folders import Folders
from tracediff.errors import TracediffError


def slug(folders, name):
    """The error of a name; '' where it may be read."""
    try:
        folders.readable(name)
    except TracediffError as error:
        return error.slug
    return ""


@pytest.fixture
def there(tmp_path):
    """runs/one.sqlite, and secret.sqlite outside of it."""
    (tmp_path / "runs").mkdir()
    for path in (tmp_path / "runs/one.sqlite", tmp_path / "secret.sqlite"):
        path.write_bytes(b"x")
    return tmp_path


def test_a_link_may_not_leave_the_folders(there):
    runs = there / "runs"
    folders = Folders([runs])
    (runs / "out.sqlite").symlink_to(there / "secret.sqlite")
    (runs / "up").symlink_to(there)
    (runs / "in.sqlite").symlink_to(runs / "one.sqlite")
    names = ("one.sqlite", "in.sqlite", "out.sqlite", "up/secret.sqlite", "up", ".")
    assert [slug(folders, name) for name in names] == ["", "", *["outside-root"] * 4]
    assert [name for name, _ in folders.entries("")] == ["in.sqlite", "one.sqlite"]


def test_what_lies_beside_a_file_under_its_name_may_not_either(there):
    (there / "runs/one.sqlite-wal").symlink_to(there / "secret.sqlite")
    assert slug(Folders([there / "runs"]), "one.sqlite") == "outside-root"


def test_a_link_behind_a_link_is_followed(there):
    (there / "runs/sub").mkdir()
    (there / "runs/sub/out").symlink_to(there / "secret.sqlite")
    (there / "runs/side").mkdir()
    (there / "runs/side/again").symlink_to(there / "runs/sub")
    assert slug(Folders([there / "runs"]), "side") == "outside-root"


def test_links_in_a_circle_end(there):
    (there / "runs/round").symlink_to(there / "runs/round")
    (there / "runs/self").symlink_to(there / "runs")
    folders = Folders([there / "runs"])
    assert slug(folders, "round") in ("not-a-file", "outside-root")
    assert slug(folders, "self/self/one.sqlite") == ""


def test_several_folders_are_told_apart_by_name(there):
    (there / "pr").mkdir()
    (there / "pr/two.sqlite").write_bytes(b"y")
    folders = Folders([there / "runs", there / "pr"])
    assert [name for name, _ in folders.entries("")] == ["pr", "runs"]
    assert [name for name, _ in folders.entries("pr")] == ["pr/two.sqlite"]
    assert slug(folders, "runs/one.sqlite") == ""
    assert slug(folders, "one.sqlite") == "not-a-file"
    assert folders.plain(f"{there}/runs/one.sqlite is bad") == "runs/one.sqlite is bad"


def test_folders_that_cannot_be_told_apart_or_are_none_are_refused(there):
    (there / "other/runs").mkdir(parents=True)
    for given in ([there / "runs", there / "other/runs"], [there / "nothing"], [there / "secret.sqlite"]):
        with pytest.raises(TracediffError) as caught:
            Folders(given)
        assert caught.value.slug == "root-invalid"


def test_a_changed_file_has_another_stamp(there):
    folders = Folders([there / "runs"])
    before = folders.readable("one.sqlite")
    (there / "runs/one.sqlite").write_bytes(b"longer")
    assert folders.readable("one.sqlite").stamp != before.stamp


def test_a_bundle_may_not_name_runs_outside(there):
    """Nor inside by a link: its own check and that of links come one after the other."""
    from tracediff.agents import answers as a
    from tracediff.agents.desk import Desk

    serving(steps=4).write(there / "secret.sqlite")
    bundle = there / "runs/bundle"
    bundle.mkdir()
    run = {"kind": "profiled", "status": "done", "folder": "../..", "exports": ["secret.sqlite"]}
    manifest = {"tracediff_bundle": 1, "runs": [{**run, "side": side} for side in ("baseline", "candidate")]}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    desk = Desk(Folders([there / "runs"]), cache=False)
    with pytest.raises(TracediffError) as caught:
        desk.compare(a.CompareAsked("bundle"))
    assert caught.value.slug == "bundle-manifest"
    (bundle / "run").symlink_to(there)
    with pytest.raises(TracediffError) as caught:
        desk.compare(a.CompareAsked("bundle"))
    assert caught.value.slug == "outside-root"
    desk.close()
