"""How times and their differences are written: one unit a column or figure, signs, percents and words.

Plain ASCII (`us`, `-`); the HTML report swaps in typographic forms.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tracediff.model import Evidence

# Unit, its ns, and the size in ns from which a column moves on: us keep four digits before the point.
_UNITS: tuple[tuple[str, int, int], ...] = (
    ("ns", 1, 1_000),
    ("us", 1_000, 10_000_000),
    ("ms", 1_000_000, 10_000_000_000),
)
NOISE = "~"
NO_BASE = "?"


class Scale(msgspec.Struct, frozen=True):
    """The unit and the number of decimals that every value of one column or figure shares."""

    unit: str
    factor: int
    decimals: int

    def number(self, ns: float) -> str:
        """Write the value without its unit; one that would round to zero is written `<0.1`."""
        return self._write(ns, "")

    def signed(self, ns: float) -> str:
        """Write the value with its sign, without its unit; zero has no sign."""
        return self._write(ns, "+")

    def time(self, ns: float) -> str:
        """Write the value with its unit."""
        return f"{self.number(ns)} {self.unit}"

    def delta(self, ns: float) -> str:
        """Write the value with sign and unit."""
        return f"{self.signed(ns)} {self.unit}"

    def both(self, before: float, after: float) -> str:
        """Write two times: `132 -> 145 us`; where both are written alike, once."""
        return f"{arrow(self.number(abs(ns)) for ns in (before, after))} {self.unit}"

    def interval(self, delta: float, low: float | None, high: float | None) -> str:
        """Write a difference with its interval, where that is known: `+61.2 ± 3.4`, `+61.2 (+48.0 to +99.1)` of unlike arms.

        Of like ones the longer is written, which covers the interval, where it says the same of 0.
        """
        text = self.signed(delta)
        if low is None or high is None:
            return text
        arms = sorted((abs(delta - low), abs(high - delta)))
        if arms[1] - arms[0] > _UNLIKE * arms[1] or (low <= 0 <= high) != (abs(delta) <= arms[1]):
            return f"{text} ({self.span(low, high)})"
        return f"{text} ± {self.number(arms[1])}"

    def span(self, low: float, high: float) -> str:
        """Write an interval alone: `+48.0 to +99.1`."""
        return f"{self.signed(low)} to {self.signed(high)}"

    def _write(self, ns: float, plus: str) -> str:
        if ns == 0:
            return "0"
        sign = "-" if ns < 0 else plus if ns > 0 else ""
        digits = f"{abs(ns) / self.factor:,.{self.decimals}f}"
        if not digits.strip("0."):
            least = f"<{10**-self.decimals:.{self.decimals}f}"
            return sign + least if plus else least  # a time is not below zero
        return sign + digits


class Spoken(Scale, frozen=True):
    """The one unit of a sentence, in which each number has three significant digits."""

    decimals: int = 0  # of no use

    def size(self, ns: float) -> str:
        """Write the size of a time without its sign: `92.3 us`."""
        return self.time(abs(ns))

    def interval(self, delta: float, low: float | None, high: float | None) -> str:
        """Write a difference with its interval, all with the decimals of the largest: `+62.4 ± 7.3 us`."""
        assert low is not None and high is not None
        decimals = _decimals(max(abs(delta), abs(low - delta), abs(high - delta)) / self.factor)
        return f"{Scale(self.unit, self.factor, decimals).interval(delta, low, high)} {self.unit}"

    def _write(self, ns: float, plus: str) -> str:
        digits = three_digits(abs(ns) / self.factor)
        return ("-" if ns < 0 else plus) + digits if digits.strip("0.") else digits


def scale_for(values: Iterable[float | None], like: Spoken | None = None) -> Scale:
    """Choose the scale that gives the largest of the values four digits, or more before the point; in the unit of `like`."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    unit, factor = next(((unit, ns) for unit, ns, end in _UNITS if largest < end), ("s", 1_000_000_000))
    if like is not None:
        unit, factor = like.unit, like.factor
    size = largest / factor
    if unit == "ns":
        return Scale(unit, factor, 0 if size >= 100 else 1)
    return Scale(unit, factor, 1 if size >= 100 else 2 if size >= 10 else 3)


def exact(ns: float) -> str:
    """Write a time that stands alone in a table: `92.34 us`."""
    return scale_for([ns]).time(ns)


def symbol(scale: Scale) -> str:
    """Return the unit as typography has it: `\u00b5s` for `us`."""
    return "\u00b5s" if scale.unit == "us" else scale.unit


def percent(delta: float, base: float | None, level: Evidence | None = None) -> str:
    """Write the difference as a percentage of the base; `?` where there is no base, `~` within noise."""
    if level == "within_noise":
        return NOISE
    if not base:
        return NO_BASE
    value = 100 * delta / abs(base)
    decimals = 0 if abs(value) >= 100 else 1
    text = f"{value:+,.{decimals}f} %"
    return text if text.strip("+-0. %") else "0.0 %"


def share(part: float, whole: float | None = 1.0) -> str:
    """Write a part of a whole in percent, no plus sign: `51 %`, `-3 %`, `?` where the whole is zero."""
    if not whole:
        return NO_BASE
    value = 100 * part / whole
    decimals = 0 if abs(value) >= 9.95 else 1
    text = f"{value:,.{decimals}f} %"
    least = "-<0.1 %" if value < 0 else "<0.1 %"
    return text if text.strip("-0. %") else least if value else "0 %"


def word(delta: float) -> str:
    """Return the word that goes with the sign of a time difference."""
    return "slower" if delta > 0 else "faster" if delta < 0 else "same"


def count(value: float) -> str:
    """Write a count per step: whole numbers as such, others with one or two decimals."""
    decimals = 1 if abs(value) >= 10 else 2
    written = round(value, decimals) + 0.0  # no minus before a zero
    decimals *= not written.is_integer()
    return f"{written:,.{decimals}f}"


def between(least: str, most: str) -> str:
    """Write counts that vary: `12-15`."""
    return least if least == most else f"{least}-{most}"


def launches(value: float, written: str = "") -> str:
    """Write a count of launches: `1 launch`, `0.97 launches`; written: in this way."""
    many = written or count(value)
    return f"{many} launch" if many == "1" else f"{many} launches"


def counted(value: float, noun: str) -> str:
    """Write a count with its noun: `1 call`, `2 calls`, `0.97 calls`."""
    number = count(value)
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def arrow(texts: Iterable[str], sign: str = " -> ") -> str:
    """Write what both sides say: `264 -> 286`, and once what is the same."""
    return sign.join(dict.fromkeys(texts))


def pair(baseline: int, candidate: int) -> str:
    """Write a count of both sides: `264 + 286`."""
    return f"{baseline:,} + {candidate:,}"


def both_shares(baseline: float, candidate: float) -> str:
    """Write a part of both sides: `51 %` where it is the same, else `51 % -> 12 %`."""
    return arrow((share(baseline), share(candidate)))


def size(value: int) -> str:
    """Write a file size in decimal units."""
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1_000
    return f"{amount:,.1f} TB"


def sizes(before: float, after: float) -> str:
    """Write two sizes in one unit, that of the larger: `12.1 -> 14.3 GB`."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = next((at for at in range(4) if max(before, after) < 1000 ** (at + 1)), 4)
    return f"{arrow(three_digits(one / 1000**power) for one in (before, after))} {units[power]}"


def probability(p: float | None) -> str:
    """Write a p or q value; never a bare zero."""
    if p is None:
        return "n/a"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


# Numbers in sentences: three significant digits, one unit a sentence.


_UNLIKE = 0.2  # of the longer arm: an interval whose arms differ by more is written with both its ends


def prose(values: Iterable[float | None]) -> Spoken:
    """Choose the unit for the times of a sentence: us below 1,000 us, ms above."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if largest < 1e6:
        return Spoken("us", 1_000)
    return Spoken("ms", 1_000_000) if largest < 1e10 else Spoken("s", 1_000_000_000)


def spoken(ns: float) -> str:
    """Write the size of a time that stands alone in a sentence: `92.3 us`."""
    return prose([ns]).size(ns)


def spoken_delta(ns: float) -> str:
    """Write a difference that stands alone in a sentence: `+92.3 us`."""
    return prose([ns]).delta(ns)


def both(baseline: float, candidate: float) -> Spoken:
    """Choose the unit for two times and their difference, which is smaller: us up to 10,000 us, as tables have it."""
    large = max(abs(baseline), abs(candidate))
    return Spoken("us", 1_000) if large < 1e7 else prose([large])


def three_digits(value: float) -> str:
    """Write a number with three significant digits and no exponent, never more than three decimals: `92.3`, `5.91`, `1,730`, `0.943`."""
    return f"{value:,.{_decimals(abs(value))}f}" if value else "0"


def _decimals(size: float) -> int:
    """So many that a number has three significant digits, three at most."""
    return 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3


def change(delta: float, base: float | None) -> str:
    """Write a difference as a part of its base: `+9.2 %`, `12x` for more than ten times; empty without a base, or where a side is below 0."""
    if not base or min(base, base + delta) < 0:
        return ""
    return f"{(base + delta) / base:,.0f}x" if (base + delta) / base >= 10 else percent(delta, base)


_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def ordinal(number: int) -> str:
    """Write a place in a row: `5th`, `22nd`, `111th`."""
    ending = "th" if 10 <= number % 100 <= 20 else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"


def step(phase: str, unit: str = "step") -> str:
    """Name a step of a phase: `generation step`, `step with topk` of a class; the unit alone where it is no step or labels tell no phases."""
    if unit != "step" or phase in ("", "step"):
        return unit
    return kind(phase) if phase.startswith("step-") else f"{phase} step"


def kind(phase: str) -> str:
    """Name a kind of steps in a sentence: `generation`, `step of 752 launches`."""
    return phase.replace("-", " ") if phase.startswith("step-") else phase


def a_step(phase: str) -> str:
    """Name one step of a phase, with its article: `a generation step`, `an irregular step`."""
    name = step(phase)
    return " ".join(["an" if name[0] in "aeiou" else "a", name])
