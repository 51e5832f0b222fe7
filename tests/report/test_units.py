from __future__ import annotations

import pytest

from tracediff.report import units


@pytest.mark.parametrize(
    ("values", "unit", "decimals"),
    [
        ([], "ns", 1),
        ([12.0], "ns", 1),
        ([640.0], "ns", 0),
        ([6_400.0], "us", 3),
        ([985_600.0, 1_073_100.0], "us", 1),
        ([985_600.0, 16_257_700.0], "ms", 2),
        ([None, -3e9], "ms", 1),
        ([4e10], "s", 2),
    ],
)
def test_a_column_has_one_unit(values: list[float | None], unit: str, decimals: int) -> None:
    scale = units.scale_for(values)
    assert (scale.unit, scale.decimals) == (unit, decimals)


def test_figures() -> None:
    scale = units.Scale("us", 1_000, 1)
    assert scale.time(1_038_600) == "1,038.6 us"
    assert scale.delta(-7_200) == "-7.2 us"
    assert scale.signed(95_100) == "+95.1"
    assert scale.signed(0) == scale.number(0) == scale.number(-0.0) == "0"


def test_a_small_value_is_not_written_as_zero() -> None:
    scale = units.Scale("us", 1_000, 1)
    assert scale.number(20) == "<0.1"
    assert scale.number(-20) == "<0.1"  # what arithmetic leaves of nothing
    assert scale.signed(20) == "+<0.1"
    assert scale.signed(-20) == "-<0.1"


def test_percent() -> None:
    assert units.percent(61.2, 121.4) == "+50.4 %"
    assert units.percent(-1, 100_000) == "0.0 %"
    assert units.percent(15_272.1, 985.6) == "+1,550 %"
    assert units.percent(3, 0) == units.percent(3, None) == "?"


def test_a_delta_within_noise_has_no_percentage() -> None:
    assert units.percent(4_700, 121_400, "within_noise") == units.NOISE
    assert units.percent(4_700, 121_400, "confirmed") == "+3.9 %"
    assert units.percent(-4_700, 121_400) == "-3.9 %"
    assert units.percent(4_700, 0) == units.NO_BASE


def test_share_count_size_probability() -> None:
    assert [units.share(v) for v in (0.514, 0.068, -0.056, 0.0, -0.0001, 0.0001)] == [
        "51 %",
        "6.8 %",
        "-5.6 %",
        "0 %",
        "-<0.1 %",
        "<0.1 %",
    ]
    assert units.share(1, 0) == "?"
    assert [units.count(v) for v in (149.0, 462.97, 7.9999999, -0.001, 0.04, 17.79, 1_234.0)] == [
        "149",
        "463",
        "8",
        "0",
        "0.04",
        "17.8",
        "1,234",
    ]
    assert [units.size(v) for v in (12, 48_213_004, 5 * 10**12)] == ["12 B", "48.2 MB", "5.0 TB"]
    assert [units.probability(v) for v in (None, 1e-9, 0.0081)] == ["n/a", "<0.001", "0.008"]


def test_numbers_in_sentences_have_three_digits_and_one_unit() -> None:
    written = (0, 0.04, 0.943, 5.911, 9.996, 92.34, 99.96, 353.9, 1732.4)
    assert [units.three_digits(value) for value in written] == [
        "0", "0.040", "0.943", "5.91", "10.0", "92.3", "100", "354", "1,732",
    ]  # fmt: skip
    short, long = units.prose([92_340, -22_100]), units.prose([1_732_400, 89_600])
    assert (short.delta(92_340), short.delta(-22_100), short.delta(0)) == ("+92.3 us", "-22.1 us", "0 us")
    assert (long.delta(-1_732_400), long.size(89_600)) == ("-1.73 ms", "0.090 ms")


def test_a_change_of_more_than_ten_times_is_a_factor() -> None:
    assert units.change(110, 10) == "12x"
    assert (units.change(92, 1_000), units.change(5, 0)) == ("+9.2 %", "")


@pytest.mark.parametrize(
    ("delta", "low", "high", "said"),
    [
        (100.0, 95.0, 105.0, "+100.0 ± 5.0"),
        (100.0, 90.0, 109.0, "+100.0 ± 10.0"),  # the longer arm covers both ends
        (100.0, 90.0, 140.0, "+100.0 (+90.0 to +140.0)"),
        (296.15, -16.6, 575.8, "+296.1 ± 312.8"),  # of its half width, 296.2, nobody sees that it holds 0
        (100.0, 1.0, 205.0, "+100.0 (+1.0 to +205.0)"),  # ± 105.0 would hold 0
        (-100.0, -205.0, -1.0, "-100.0 (-205.0 to -1.0)"),
        (100.0, None, None, "+100.0"),
    ],
)  # fmt: skip
def test_an_interval_has_one_of_two_forms(
    delta: float, low: float | None, high: float | None, said: str
) -> None:
    assert units.Scale("us", 1, 1).interval(delta, low, high) == said


def test_a_step_has_its_article() -> None:
    assert [units.a_step(phase) for phase in ("irregular", "generation", "step", "step-with topk")] == [
        "an irregular step", "a generation step", "a step", "a step with topk",
    ]  # fmt: skip
