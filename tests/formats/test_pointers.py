"""Files of which only a pointer is there, and copies that no program asked for."""

from __future__ import annotations

import pytest

from tests.tiny import one_gap, reduced
from tracediff.errors import TracediffError
from tracediff.formats.unpack import unpack

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"


@pytest.mark.parametrize("name", ["a.sqlite", "a.sqlite.xz", "a.nsys-rep", "a.json", "a.json.gz"])
def test_a_pointer_of_git_lfs_is_told(name, tmp_path):
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(TracediffError) as raised:
        unpack(tmp_path / name, tmp_path)
    assert raised.value.slug == "git-lfs-pointer"
    assert f"git lfs pull --include '*{name}'" in raised.value.fix


def test_migrations_of_unified_memory_are_known(tmp_path):
    trace = one_gap().memcpy(None, 200, 300, "unified HtoD").memcpy(None, 400, 450, "unified DtoH")
    assert {"[memcpy unified HtoD]", "[memcpy unified DtoH]"} <= set(reduced(trace, tmp_path).keys["name"])
