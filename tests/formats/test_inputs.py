"""Words of the command line -> sides, runs and the exports of their ranks."""

from __future__ import annotations

import pytest

from tests.tiny import ROOT
from tracediff.errors import TracediffError
from tracediff.formats.bundle import Manifest, Run, write_manifest
from tracediff.formats.inputs import resolve, resolve_pair


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def runs(side) -> dict[str, list[str]]:
    return {run.name: [file.name for file in run.files] for run in side.runs}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("before.sqlite", "before"),
        ("before.sqlite.xz", "before"),
        ("before.nsys-rep", "before"),
        ("a.b.sqlite", "a.b"),
        ("odd.db", "odd.db"),
    ],
)
def test_a_file_is_one_run(name, label, tmp_path):
    side = resolve(str(touch(tmp_path, name) / name))
    assert (side.label, runs(side)) == (label, {name: [name]})


def test_a_label(tmp_path):
    touch(tmp_path, "a.sqlite")
    side = resolve(f"my change={tmp_path / 'a.sqlite'}")
    assert (side.label, runs(side)) == ("my change", {"a.sqlite": ["a.sqlite"]})


def test_a_file_whose_name_has_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(touch(tmp_path, "x=1.sqlite", "1.sqlite"))
    assert resolve("x=1.sqlite").label == "x=1"  # it is there: it is meant
    assert runs(resolve("y=1.sqlite")) == {"1.sqlite": ["1.sqlite"]}
    assert resolve(str(tmp_path / "x=1.sqlite")).label == "x=1"


def test_a_folder_is_its_exports_in_the_order_of_names(tmp_path):
    touch(
        tmp_path / "main",
        "r2.sqlite",
        "r1.sqlite",
        "r10.sqlite.xz",
        "notes.txt",
        ".hidden.txt",
        "r1.sqlite-journal",
    )
    side = resolve(str(tmp_path / "main"))
    assert side.label == "main"
    assert list(runs(side)) == ["r1.sqlite", "r10.sqlite.xz", "r2.sqlite"]


def test_a_folder_with_a_slash_behind_and_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(touch(tmp_path / "main", "a.sqlite"))
    assert resolve(f"{tmp_path / 'main'}/").label == "main"
    assert resolve(".").label == "main"


def test_a_pattern_is_what_it_matches(tmp_path):
    touch(tmp_path, "base_1.sqlite", "base_1.nsys-rep", "base_2.sqlite.xz", "base_0.txt", "base_3/x.sqlite")
    touch(tmp_path, "new_1.sqlite", "new_2/x.sqlite")
    side = resolve(f"main={tmp_path}/base_*")
    assert (side.label, list(runs(side))) == ("main", ["base_1.sqlite", "base_2.sqlite.xz"])
    (note,) = side.notes  # of what it matches, not of what it leaves
    assert note.slug == "files-not-taken" and "(base_3)" in note.message
    assert resolve(f"{tmp_path}/new_?.sqlite").label == "new_?"


def test_a_pattern_of_wildcards_alone_bears_the_name_of_its_folder(tmp_path):
    touch(tmp_path, "main/a.sqlite")
    labels = {one: resolve(f"{tmp_path}/main/{one}").label for one in ("*", "*.sqlite", "a*.sqlite")}
    assert labels == {"*": "main", "*.sqlite": "main", "a*.sqlite": "a*"}


def test_a_pattern_of_ranks_and_of_folders(tmp_path):
    touch(
        tmp_path,
        "a1.rank0.sqlite",
        "a1.rank1.sqlite",
        "run_1/x.rank0.sqlite",
        "run_1/x.rank1.sqlite",
        "run_2/x.sqlite",
    )
    assert runs(resolve(f"{tmp_path}/a1*")) == {"a1.sqlite": ["a1.rank0.sqlite", "a1.rank1.sqlite"]}
    found = runs(resolve(f"{tmp_path}/run_*"))
    assert found == {"run_1": ["x.rank0.sqlite", "x.rank1.sqlite"], "run_2": ["x.sqlite"]}


def test_a_pattern_that_matches_nothing_and_a_name_with_brackets(tmp_path):
    touch(tmp_path, "run[1].sqlite", "run1.sqlite", "note.txt")
    assert list(runs(resolve(f"{tmp_path}/run[1].sqlite"))) == ["run[1].sqlite"]  # it is there: it is meant
    for pattern, slug in (("old_*", "not-a-file"), ("*.txt", "empty-folder")):
        with pytest.raises(TracediffError) as error:
            resolve(f"{tmp_path}/{pattern}")
        assert error.value.slug == slug


@pytest.mark.parametrize("export", ["a.sqlite", "a.sqlite.xz"])
def test_a_report_beside_its_export_is_the_same_run(export, tmp_path):
    assert runs(resolve(str(touch(tmp_path, "a.nsys-rep", export, "b.nsys-rep")))) == {
        export: [export], "b.nsys-rep": ["b.nsys-rep"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.rank0.sqlite", "a.rank1.sqlite"], {"a.sqlite": ["a.rank0.sqlite", "a.rank1.sqlite"]}),
        # by number, not by letter
        (["a_rank10.sqlite", "a_rank9.sqlite"], {"a.sqlite": ["a_rank9.sqlite", "a_rank10.sqlite"]}),
        (
            ["run1-rank_0.sqlite", "run1-rank_1.sqlite", "run2-rank_0.sqlite", "run2-rank_1.sqlite"],
            {
                "run1.sqlite": ["run1-rank_0.sqlite", "run1-rank_1.sqlite"],
                "run2.sqlite": ["run2-rank_0.sqlite", "run2-rank_1.sqlite"],
            },
        ),
    ],
)
def test_files_that_differ_in_their_rank_are_one_run(names, expected, tmp_path):
    assert runs(resolve(str(touch(tmp_path, *names)))) == expected


def test_a_run_whose_files_are_called_by_their_ranks_alone_bears_the_name_of_its_folder(tmp_path):
    names = ["RANK0.sqlite", "RANK1.sqlite"]
    (tmp_path / "tp2").mkdir()
    assert runs(resolve(str(touch(tmp_path / "tp2", *names)))) == {"tp2": names}


def test_a_folder_of_folders(tmp_path):
    touch(
        tmp_path,
        "run2/rank0.sqlite",
        "run2/rank1.sqlite",
        "run1/rank0.sqlite",
        "run1/rank1.sqlite",
        "logs/out.txt",
    )
    side = resolve(str(tmp_path))
    assert runs(side) == {"run1": ["rank0.sqlite", "rank1.sqlite"], "run2": ["rank0.sqlite", "rank1.sqlite"]}


@pytest.mark.parametrize("names", [[], ["notes.txt"], ["a.sqlite-wal"], ["deep/notes.txt"]])
def test_a_folder_without_exports(names, tmp_path):
    touch(tmp_path, *names)
    with pytest.raises(TracediffError) as raised:
        resolve(str(tmp_path))
    assert raised.value.slug == "empty-folder"
    assert "nsys export" in raised.value.fix and raised.value.exit_code == 1


@pytest.mark.parametrize("word", ["nowhere.sqlite", "label=nowhere.sqlite", "", "label="])
def test_what_is_not_there(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TracediffError) as raised:
        resolve(word)
    assert raised.value.slug in ("not-a-file", "empty-folder")


def test_a_dangling_link_is_not_there(tmp_path):
    (tmp_path / "gone.sqlite").symlink_to(tmp_path / "nothing")
    with pytest.raises(TracediffError) as raised:
        resolve(str(tmp_path / "gone.sqlite"))
    assert raised.value.slug == "not-a-file"


def test_the_same_folder_is_read_the_same_way_twice(tmp_path):
    touch(tmp_path, *(f"r{number}.sqlite" for number in (3, 1, 2)))
    assert resolve(str(tmp_path)) == resolve(str(tmp_path))


BUNDLES = ROOT / "fixtures" / "bundles"


@pytest.mark.parametrize(
    "folder", [BUNDLES, BUNDLES / "gc5", BUNDLES / "gc5" / "runs"], ids=["several", "one", "its runs"]
)
def test_runs_of_both_sides_are_no_side(folder):
    with pytest.raises(TracediffError) as raised:
        resolve(str(folder))
    assert raised.value.slug == "bundle-as-side"


def test_one_run_of_a_bundle_is_a_side_and_so_are_runs_beside_another_manifest(tmp_path):
    run = next(one for one in sorted((BUNDLES / "gc5" / "runs").iterdir()) if one.name.endswith("baseline-1"))
    assert len(resolve(str(run)).runs) == 1
    touch(tmp_path, "runs/a.sqlite", "manifest.json")
    assert runs(resolve(str(tmp_path / "runs"))) == {"a.sqlite": ["a.sqlite"]}


def notes(side) -> dict[str, str]:
    return {note.slug: note.message for note in side.notes}


def test_a_bundle_says_how_many_of_its_runs_are_there_and_what_holds_an_environment(tmp_path):
    """Planned are 2 x (2 profiled + 1 control); --until ends earlier, or plans up to `max_runs` pairs."""
    bundle = tmp_path / "pr"
    touch(
        bundle,
        "runs/1/report.sqlite",
        "runs/2/report.sqlite",
        "runs/.3.part/report.nsys-rep",
        "runs/.3.part/report.json",
    )
    runs = [Run(side=side, kind="profiled", folder=f"runs/{name}", status=status, exports=["report.sqlite"][: status == "done"])
            for side, name, status in (("baseline", 1, "done"), ("candidate", 2, "done"), ("candidate", 3, "failed"))]  # fmt: skip

    def said(**known) -> str:
        write_manifest(bundle, Manifest(plan={"repeats": 2, "warmup": 0, "controls": 1}, runs=runs, **known))
        return notes(resolve_pair(str(bundle), None)[0]).get("bundle-unfinished", "")

    raw = "runs/.3.part/report.nsys-rep of a run that broke off holds the environment of its program"
    then = "tracediff capture PLAN -o pr --resume makes the others where it was recorded"
    assert said() == f"2 of 6 planned runs are there, and {raw}. {then}"
    assert said(adaptive={"max_runs": 9, "stopped": None}).startswith("2 of 20 planned runs")
    assert said(adaptive={"max_runs": 9, "stopped": "changed"}) == ""
    del runs[1]
    with pytest.raises(
        TracediffError, match=r"pr: no finished profiled run of the candidate: 1 of 6 planned"
    ):
        said()


def test_a_link_to_nothing_is_not_what_was_meant(tmp_path):
    (tmp_path / "a.sqlite").symlink_to("gone")
    with pytest.raises(TracediffError) as refused:
        resolve(str(tmp_path / "a.sqlite"))
    assert (refused.value.slug, refused.value.fix) == ("not-a-file", "check the path")


def test_repeats_in_a_subfolder_are_said_to_be_taken_as_ranks(tmp_path):
    side = resolve(str(touch(tmp_path / "par", "main/a1.sqlite", "main/a2.sqlite", "main/a3.sqlite")))
    assert runs(side) == {"main": ["a1.sqlite", "a2.sqlite", "a3.sqlite"]}
    said = notes(side)["taken-as-ranks"]
    assert "3 exports of `par/main`" in said
    assert "give the folder `par/main` itself" in said
    assert not resolve(str(tmp_path / "par" / "main")).notes


def test_two_runs_of_ranks_in_one_subfolder_are_said_too(tmp_path):
    names = [f"main/{run}_rank{rank}.sqlite" for run in "ab" for rank in (0, 1)]
    assert "4 exports of `par/main`" in notes(resolve(str(touch(tmp_path / "par", *names))))["taken-as-ranks"]


def test_ranks_by_name_in_subfolders_are_no_warning(tmp_path):
    folder = touch(tmp_path / "par", *(f"r{run}/x_rank{rank}.sqlite" for run in (1, 2) for rank in (0, 1)))
    assert not resolve(str(folder)).notes


def test_what_is_not_taken_of_a_folder_is_counted_by_kind(tmp_path):
    folder = touch(
        tmp_path / "mixed", "a.sqlite", "b.sqlite", "b.nsys-rep", "sub/c.sqlite", "notes.txt", "bench.json"
    )
    for number in range(5):
        (folder / f"t{number}.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    said = notes(resolve(str(folder)))["files-not-taken"]
    assert "only 2 exports of nsys" in said
    assert "5 torch.profiler traces (t0.json, t1.json, t2.json and 2 more)" in said
    assert "1 folder with exports (sub)" in said
    assert "b.nsys-rep" not in said  # the same run as b.sqlite
    assert "notes.txt" not in said


def test_a_folder_of_tables_beside_the_sqlite_of_its_name_is_not_taken(tmp_path):
    folder = touch(
        tmp_path / "runs", "a.sqlite", "a_pqtdir/META_DATA_EXPORT.parquet", "a_pqtdir/StringIds.parquet"
    )
    side = resolve(str(folder))
    assert runs(side) == {"a.sqlite": ["a.sqlite"]}
    assert "1 export of nsys (a_pqtdir)" in notes(side)["files-not-taken"]
