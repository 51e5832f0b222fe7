"""What a gate says of what it measured, written from the facts of its outcome."""

from __future__ import annotations

from msgspec.structs import replace

from tracediff.comparison.measures import parse
from tracediff.model import GateOutcome, Result
from tracediff.report import names, units, words
from tracediff.report.grammar import say, told

_MILLISECONDS = 1e7  # ns, from which a gate's times are in ms


def with_messages(result: Result) -> Result:
    """The result with what its gates say; those that were stored with a result keep theirs."""
    if result.gates is None:
        return result
    outcomes = [
        replace(one, message=_aside(one, _message(one, result), result)) if one.facts else one
        for one in result.gates.outcomes
    ]
    return replace(result, gates=replace(result.gates, outcomes=outcomes))


def _aside(gate: GateOutcome, text: str, result: Result) -> str:
    """The message with what the result knows: how to capture what was not, and that its policy lets the gate pass."""
    assert gate.facts is not None and result.gates is not None
    if gate.facts.why == "not_measured":
        lacks = list(filter(None, (words.missing(result, kind) for kind in parse(gate.metric).needs)))
        text = say("gate_missing", text=text, missing=lacks[0].removesuffix(".")) if lacks else text
    let = result.gates.pass_inconclusive and gate.severity == "error" and result.verdict != "not_comparable"
    if let and gate.outcome == "inconclusive":
        text = say("gate_let_pass", text=text, policy=result.gates.policy)
    return text


def _message(gate: GateOutcome, result: Result) -> str:
    facts = gate.facts
    assert facts is not None
    limit, unseen = (_amount(gate, value, "") for value in (gate.limit or 0.0, facts.unseen))
    sure, least = (_amount(gate, value) for value in (facts.sure, facts.least))
    text = told(facts.said) or say(
        f"gate_{facts.why}", reason=result.verdict_reason, change=_change(gate), limit=limit, unseen=unseen, sure=sure, least=least
    )  # fmt: skip
    if facts.places:
        text = say("gate_places", text=text, places=names.some([repr(one) for one in facts.places]))
    if facts.waived_to:
        text = say("gate_waived_to", text=text, limit=facts.waived_to)
    for pattern, waiver in (("gate_waived", gate.waiver), ("gate_waiver_ended", facts.ended)):
        if waiver is not None:
            text = say(pattern, text=text, expires=waiver.expires, reason=waiver.reason)
    return text


def _change(gate: GateOutcome) -> str:
    """`step +12.4 us (+3.1 %) in the mean of all steps`."""
    if gate.facts is None or gate.delta is None:
        return ""
    text = f"{told(gate.facts.of) or gate.metric} {_amount(gate, gate.delta)}"
    if gate.baseline:
        text += f" ({units.percent(gate.delta, gate.baseline)})"
    return f"{text} {told(gate.facts.steps)}".rstrip()


def _amount(gate: GateOutcome, value: float, plus: str = "+") -> str:
    """An amount of the gate: all in one unit, that of the larger of change and limit."""
    if gate.facts and gate.facts.bytes:
        sign = "-" if value < 0 else plus
        return say("gate_count", size=f"{sign}{units.size(round(abs(value)))}")
    if gate.unit == "count":
        return say("gate_count", size=f"{value:{plus}.2f}".rstrip("0").rstrip("."))
    if max(abs(gate.delta or 0.0), gate.limit or 0.0) >= _MILLISECONDS:
        return f"{value / 1e6:{plus},.3f} ms"
    return f"{value / 1e3:{plus},.1f} us"
