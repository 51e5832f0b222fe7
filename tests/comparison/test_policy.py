"""Policy files: gates, warnings, waivers that end, and what the guide says of them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import msgspec
import pytest

from tests.judging import judge_all, judged
from tests.report import sample
from tracediff.cli.main import cli
from tracediff.comparison.gates import Policy, Waiver, exit_code, parse_gate, read_policy
from tracediff.comparison.measures import BENCHMARK, COUNTS, TIMES, Measure, parse
from tracediff.model import GateWaiver

DAY = date(2027, 1, 31)
FULL = (
    sample.full()
)  # step +12.4 % (129.3 us of 1,038.6), gc +23.5 us confirmed, launch_api +4.7 us within noise


def write(folder, text, name="policy.toml"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["policy.toml", "pyproject.toml"])
def test_a_policy_in_a_file_of_its_own_or_in_pyproject(name, tmp_path):
    table, waiver = (
        ("[tool.tracediff]", "[[tool.tracediff.waiver]]") if name == "pyproject.toml" else ("", "[[waiver]]")
    )
    text = f"""{table}
fail-on = ["step:+3%", "kernel:nvjet:+5%"]
warn-on = ["launches:+10"]
inconclusive = "pass"
{waiver}
measure = "kernel:nvjet"
reason = "known  to\\tus"
expires = 2027-01-31
{waiver}
measure = "step"
limit = "+15%"
reason = "x"
expires = 2027-01-31
"""
    policy = read_policy(write(tmp_path, text.replace("\\t", "\t"), name))
    assert [(gate.text, gate.severity) for gate in policy.gates] == [
        ("step:+3%", "error"), ("kernel:nvjet:+5%", "error"), ("launches:+10", "warning"),
    ]  # fmt: skip
    assert policy.pass_inconclusive and policy.source == name
    assert policy.waivers[0] == Waiver(Measure("kernel", kernel="nvjet"), "known to us", DAY, None)
    assert policy.waivers[1].gate is not None and policy.waivers[1].gate.limit == 0.15


def waived(metric, limit=None):
    return Waiver(parse(metric), "known", DAY, parse_gate(f"{metric}:{limit}") if limit else None)


@pytest.mark.parametrize(
    ("gate", "waiver", "today", "outcome", "said"),
    [
        ("gc:+1us", waived("gc"), date(2027, 1, 1), "waived", "waived until 2027-01-31: known"),
        ("gc:+1us", waived("gc"), DAY, "waived", "until"),  # its last day
        ("gc:+1us", waived("gc"), date(2027, 2, 1), "failed", "its waiver ended on 2027-01-31"),
        ("gc:+1us", waived("gc", "+30us"), DAY, "waived", "until"),  # it grew by 23.5 us
        ("gc:+1us", waived("gc", "+20us"), DAY, "failed", "and the +20us to which it is waived"),
        ("gc:+1us", waived("gil_wait"), DAY, "failed", "exceeds"),
        ("gc:+1ms", waived("gc"), DAY, "passed", "limit"),
        ("launch_api:+1us", waived("launch_api"), DAY, "inconclusive", "may be noise"),
    ],
)
def test_waivers(gate, waiver, today, outcome, said):
    result = judged(Policy((parse_gate(gate),), (waiver,)), FULL, today)
    (one,) = result.gates.outcomes
    assert one.outcome == outcome and said in one.message
    assert one.waiver == (GateWaiver("known", "2027-01-31") if outcome == "waived" else None)
    assert exit_code(result) == {"passed": 0, "waived": 0, "failed": 3, "inconclusive": 4}[outcome]


def test_waivers_that_do_nothing_are_told():
    policy = Policy((parse_gate("gc:+1ms"),), (waived("gc"), waived("comm")))
    assert judge_all(policy, FULL, DAY).notes == [
        "waiver of gc: not needed, its gate did not fail",
        "waiver of comm: no gate limits it",
    ]
    assert judge_all(Policy((parse_gate("gc:+1us"),), (waived("gc"),)), FULL, DAY).notes == []


def test_exit_codes():
    def code(*gates, result=FULL, pass_inconclusive=False):
        return exit_code(judged(Policy(gates, (), pass_inconclusive), result, DAY))

    fail, unsure, ok = parse_gate("gc:+1us"), parse_gate("launch_api:+1us"), parse_gate("gc:+1ms")
    assert (code(), code(ok), code(ok, unsure), code(unsure, fail)) == (0, 0, 4, 3)
    assert code(ok, unsure, pass_inconclusive=True) == 0
    assert code(fail, unsure, pass_inconclusive=True) == 3
    warnings = [parse_gate(gate.text, "warning") for gate in (fail, unsure)]
    assert code(*warnings, ok) == 0
    other = msgspec.structs.replace(FULL, verdict="not_comparable")
    assert code(result=other) == code(fail, result=other) == code(result=other, pass_inconclusive=True) == 4


def test_a_result_keeps_its_gates():
    """What a gate was measured against: the numbers of the sample, 129.3 us of 1,038.6 and 23.5 us of GC."""
    gates = tuple(map(parse_gate, (" step:+3%", "idle:+1s", "launches:+10", "step-with-topk.p99:+1us")))
    step, idle, launches, unknown = judged(Policy(gates, ()), FULL, DAY).gates.outcomes
    assert (step.text, step.metric, step.outcome, step.unit) == ("step:+3%", "step", "failed", "ns")
    said = FULL.observed  # the change of the first sentence
    assert step.limit == pytest.approx(0.03 * said.baseline_ns)
    assert (step.baseline, step.delta) == (said.baseline_ns, said.delta_ns)
    assert (step.ci_low, step.ci_high) == (said.ci_low_ns, said.ci_high_ns)
    assert (idle.limit, idle.ci_low) == (1e9, None)  # a sum of categories has no interval
    before, after = (side.calls_per_step for side in (FULL.launch.baseline, FULL.launch.candidate))
    assert (launches.unit, launches.limit, launches.delta) == ("count", 10, after - before)
    assert (unknown.outcome, unknown.delta, unknown.limit) == ("inconclusive", None, None)


# What docs/gate.md says

GUIDE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")


def test_the_policy_of_the_guide_is_one(tmp_path):
    text = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    policy = read_policy(write(tmp_path, text[1], "pyproject.toml"))
    assert {waiver.measure for waiver in policy.waivers} <= {gate.measure for gate in policy.gates}
    assert len(policy.gates) == 6 and len(policy.waivers) == 1 and not policy.pass_inconclusive


def test_the_metrics_of_the_guide_are_all_there_are():
    rows = re.findall(r"^\| (`.*?) \| (?:time|count), % \|", GUIDE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {
        *TIMES,
        *COUNTS,
        "step-with-prompt",
        "generation.p99",
        "kernel:NAME",
        *BENCHMARK,
        "ttft.p99",
    }
    for name in named:
        assert parse_gate(f"{name}:+1%").metric == name


def test_the_options_of_the_guide_exist():
    """Every option of a line that calls tracediff is one of the command's."""
    lines = re.sub(r"\\\n", " ", GUIDE).splitlines()
    for line in lines:
        for command, rest in re.findall(r"tracediff (capture|compare|comment|report) ([^;|`]*)", line):
            known = {one for param in cli.get_command(None, command).params for one in param.opts}
            used = set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest))
            assert used <= known, (line, used - known)
