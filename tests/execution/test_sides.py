"""What is done to sides before they are compared."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from msgspec.structs import replace

from tests.serving import serving
from tests.tiny import reduced
from tracediff.accounting.reduction import Reduction
from tracediff.execution.sides import Run, Side, outside_alike


def side(part: Reduction, *places: str) -> Side:
    """A side whose one run spent time at these places."""
    table = pl.DataFrame({"place": places})
    return Side("", [Run("run", [replace(part, cells=table, moments=table)])])


def places(sides: list[Side]) -> list[list[str]]:
    for one in sides:
        assert one.parts[0].cells.equals(one.parts[0].moments)
    return [one.parts[0].cells["place"].to_list() for one in sides]


def test_time_outside_of_ranges_is_called_alike_where_a_side_has_none(tmp_path: Path) -> None:
    part = reduced(serving(), tmp_path)
    bare, ranged = ["outside any range"], ["outside any range, between scan and sort", "scan"]
    alike = ["outside any range", "outside any range"]  # code in `scan` is somewhere on the other side, too
    assert places(outside_alike([side(part, *bare), side(part, *ranged)])) == [bare, alike]
    assert places(outside_alike([side(part, *ranged), side(part, *bare)])) == [alike, bare]


def test_time_between_ranges_is_outside_where_a_side_has_none_of_it(tmp_path: Path) -> None:
    part = reduced(serving(), tmp_path)
    one, other = ["outside any range", "scan"], ["outside any range, between scan and sort", "scan"]
    assert places(outside_alike([side(part, *one), side(part, *other)])) == [one, one]


def test_places_between_ranges_stay_where_all_sides_have_ranges(tmp_path: Path) -> None:
    part = reduced(serving(), tmp_path)
    one, other = ["outside any range, after scan"], ["outside any range, between scan and sort"]
    assert places(outside_alike([side(part, *one), side(part, *other)])) == [one, other]
