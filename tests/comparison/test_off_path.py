"""A thread beside the step's path that changed: warned of, unless a finding tells what it did."""

from __future__ import annotations

import msgspec
import pytest

from tests.report import sample
from tracediff.comparison.findings import off_path_notes
from tracediff.model import Evidence, ThreadRow

BUSIER = ThreadRow(
    role="await-response",
    process="worker",
    score=1.0,
    baseline_ranges=[],
    candidate_ranges=[],
    baseline_range_ns=30_000.0,
    candidate_range_ns=1_000_000.0,
    delta_ns=970_000.0,
)


def warned(holder: str | None, level: Evidence = "confirmed") -> bool:
    one = sample.full().findings[0]
    where = msgspec.structs.replace(one.where, holder_thread=holder)
    finding = msgspec.structs.replace(one, where=where, level=level)
    return bool(off_path_notes([BUSIER], [], {"executor"}, [finding]))


@pytest.mark.parametrize("holder", [None, "detokenizer"])
def test_a_thread_that_no_finding_names_is_warned_of(holder):
    assert warned(holder)


def test_the_holder_of_a_finding_is_told_there():
    assert not warned("await-response")


def test_a_holder_within_noise_explains_nothing():
    assert warned("await-response", "within_noise")
