"""Policy files: gates, warnings, waivers that end, and what the command line makes of them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import msgspec
import pytest

from tests.cli.checks import expect_error
from tests.report import sample
from tracediff.cli.main import cli
from tracediff.companions.result import decode
from tracediff.compare.gates import (
    COUNTS,
    TIMES,
    Policy,
    Waiver,
    exit_code,
    judge_all,
    judged,
    parse_gate,
    read_policy,
)
from tracediff.errors import TracediffError
from tracediff.model import GateWaiver, encode

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
metric = "kernel:nvjet"
reason = "known  to\\tus"
expires = 2027-01-31
{waiver}
metric = "step"
limit = "+15%"
reason = "x"
expires = 2027-01-31
"""
    policy = read_policy(write(tmp_path, text.replace("\\t", "\t"), name))
    assert [(gate.text, gate.severity) for gate in policy.gates] == [
        ("step:+3%", "error"), ("kernel:nvjet:+5%", "error"), ("launches:+10", "warning"),
    ]  # fmt: skip
    assert policy.pass_inconclusive and policy.source == name
    assert policy.waivers[0] == Waiver("kernel:nvjet", "known to us", DAY, None)
    assert policy.waivers[1].gate is not None and policy.waivers[1].gate.limit == 0.15


@pytest.mark.parametrize(
    ("text", "slug", "said"),
    [
        ("fail-on = [", "policy-unreadable", "no TOML"),
        ("fail_on = []", "bad-policy", "unknown field `fail_on`"),
        ('fail-on = "step:+3%"', "bad-policy", "$.fail-on"),
        ("fail-on = [3]", "bad-policy", "$.fail-on"),
        ('fail-on = ["stop:+3%"]', "bad-gate", "stop"),
        ('inconclusive = "maybe"', "bad-policy", "inconclusive"),
        ("waiver = 3", "bad-policy", "$.waiver"),
        ('[[waiver]]\nmetric = "gc"\nexpires = 2027-01-31', "bad-policy", "reason"),
        ('[[waiver]]\nmetric = "gc"\nreason = " "\nexpires = 2027-01-31', "bad-policy", "reason"),
        ('[[waiver]]\nmetric = "gc"\nreason = "x"', "bad-policy", "`expires`"),
        ('[[waiver]]\nmetric = "gc"\nreason = "x"\nexpires = "soon"', "bad-policy", "expires"),
        ('[[waiver]]\nmetric = "gc"\nreason = "x"\nexpires = 2027-01-31T00:00:00', "bad-policy", "expires"),
        ('[[waiver]]\nmetric = "gcc"\nreason = "x"\nexpires = 2027-01-31', "bad-gate", "gcc"),
        ('[[waiver]]\nmetric = "gc"\nlimit = 5\nreason = "x"\nexpires = 2027-01-31', "bad-policy", "limit"),
        ('[[waiver]]\nmetric = "gc"\nlimit = "x"\nreason = "x"\nexpires = 2027-01-31', "bad-gate", "gc:x"),
        ('[[waiver]]\nmetric = "gc"\nuntil = 2027-01-31', "bad-policy", "unknown field `until`"),
        ("[tool.other]\nx = 1", "bad-policy", "no [tool.tracediff]"),
        ("tool = 3", "bad-policy", "no [tool.tracediff]"),
        ("[tool]\ntracediff = 3", "bad-policy", "Expected `object`"),
    ],
)
def test_bad_policies(text, slug, said, tmp_path):
    with pytest.raises(TracediffError) as raised:
        read_policy(write(tmp_path, text))
    assert (raised.value.slug, raised.value.exit_code) == (slug, 2)
    assert said in raised.value.message


def test_a_missing_policy(tmp_path):
    with pytest.raises(TracediffError) as raised:
        read_policy(tmp_path / "no.toml")
    assert raised.value.slug == "policy-unreadable"
    assert read_policy(tmp_path / "pyproject.toml", required=False) == Policy()
    other = write(tmp_path, "[tool.ruff]\nline-length = 3", "pyproject.toml")
    assert read_policy(other, required=False) == Policy()


def waived(metric, limit=None):
    return Waiver(metric, "known", DAY, parse_gate(f"{metric}:{limit}") if limit else None)


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
        "waiver of comm: no gate has this metric",
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


# The command line


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "result.json").write_bytes(encode(FULL))
    return "result.json"


def gates_of(err):
    return [line for line in err.splitlines() if line.startswith("gate ")]


def test_pyproject_of_the_working_directory_is_the_policy(run, saved, tmp_path):
    write(tmp_path, '[tool.tracediff]\nfail-on = ["step:+3%"]\nwarn-on = ["gc:+1us"]', "pyproject.toml")
    code, out, err = run("report", saved, "-q", "--fail-on", "gil_wait:+1ms")
    assert (code, out) == (3, "")
    assert [line.split(": ")[:2] for line in gates_of(err)] == [
        ["gate step:+3%", "failed"], ["gate gc:+1us", "failed (warning only)"], ["gate gil_wait:+1ms", "passed"],
    ]  # fmt: skip
    assert run("report", saved, "-q", "--no-policy")[0] == 0


def test_a_policy_file_takes_its_place(run, saved, tmp_path):
    write(tmp_path, '[tool.tracediff]\nfail-on = ["step:+3%"]', "pyproject.toml")
    write(tmp_path, 'fail-on = ["gc:+1ms"]\n[[waiver]]\nmetric = "gc"\nreason = "x"\nexpires = 2027-01-31')
    code, _, err = run("report", saved, "-q", "--policy", "policy.toml")
    assert code == 0 and len(gates_of(err)) == 1
    assert "policy.toml: waiver of gc: not needed" in err


def test_a_result_keeps_its_gates():
    """What a gate was measured against: the numbers of the sample, 129.3 us of 1,038.6 and 23.5 us of GC."""
    gates = tuple(map(parse_gate, (" step:+3%", "idle:+1s", "launches:+10", "nope.p99:+1us")))
    step, idle, launches, unknown = judged(Policy(gates, ()), FULL, DAY).gates.outcomes
    assert (step.text, step.metric, step.outcome, step.unit) == ("step:+3%", "step", "failed", "ns")
    assert step.limit == pytest.approx(0.03 * FULL.step.baseline_ns)
    assert (step.baseline, step.delta) == (FULL.step.baseline_ns, FULL.step.delta_ns)
    assert (step.ci_low, step.ci_high) == (FULL.step.ci_low_ns, FULL.step.ci_high_ns)
    assert (idle.limit, idle.ci_low) == (1e9, None)  # a sum of categories has no interval
    before, after = (side.calls_per_step for side in (FULL.launch.baseline, FULL.launch.candidate))
    assert (launches.unit, launches.limit, launches.delta) == ("count", 10, after - before)
    assert (unknown.outcome, unknown.delta, unknown.limit) == ("inconclusive", None, None)


def test_gates_of_a_saved_result_are_rendered_again_and_decide_again(run, saved, tmp_path):
    code, _, first = run(
        "report", saved, "-q", "--fail-on", "gc:+1us", "--warn-on", "step:+1%", "--json", "gated.json"
    )
    assert code == 3
    code, _, again = run("report", "gated.json", "-q", "--junit", "g.xml", "--md", "c.md", "--html", "h.html")
    assert code == 3 and gates_of(again) == gates_of(first)
    assert (tmp_path / "g.xml").read_text().count("<testcase ") == 2
    assert "| `gc:+1us` | **failed** |" in (tmp_path / "c.md").read_text()
    assert '<section id="gates">' in (tmp_path / "h.html").read_text()
    assert "| `gc:+1us` | **failed** |" in run("comment", "gated.json", "--dry-run")[1]


def test_a_gate_given_again_is_judged_again(run, saved, tmp_path):
    run("report", saved, "-q", "--fail-on", "gc:+1us", "--warn-on", "step:+1%", "--json", "gated.json")
    write(tmp_path, 'fail-on = ["gc:+1us"]\n[[waiver]]\nmetric = "gc"\nreason = "x"\nexpires = 2999-01-31')
    code, _, err = run("report", "gated.json", "-q", "--policy", "policy.toml", "--json", "two.json")
    assert code == 0
    assert [one.split(": ")[1] for one in gates_of(err)] == ["failed (warning only)", "waived"]
    assert decode((tmp_path / "two.json").read_bytes()).gates.policy == "policy.toml"


def test_inconclusive_passes_again_where_the_policy_let_it_pass(run, saved, tmp_path):
    write(tmp_path, 'fail-on = ["launch_api:+1us"]\ninconclusive = "pass"')
    assert run("report", saved, "-q", "--policy", "policy.toml", "--json", "gated.json")[0] == 0
    assert run("report", "gated.json", "-q")[0] == 0
    assert run("report", saved, "-q", "--fail-on", "launch_api:+1us")[0] == 4


def test_annotations(run, saved):
    code, out, _ = run("report", saved, "-q", "--fail-on", "step:+3%", "--annotations", "github")
    lines = out.splitlines()
    assert code == 3 and len(lines) == 2
    assert lines[0].startswith("::notice title=tracediff%3A Regressed::")
    assert lines[1].startswith(
        "::error title=tracediff gate step%3A+3%25%3A failed::step +129.3 us (+12.4 %25)"
    )


def test_a_bad_policy_stops_before_the_work(run, saved, tmp_path):
    write(tmp_path, "fail_on = []")
    expect_error(run("report", "nowhere.json", "--policy", "policy.toml"), "bad-policy", 2)
    expect_error(run("report", saved, "--policy", "no.toml"), "policy-unreadable", 2)
    expect_error(run("report", saved, "--warn-on", "x"), "bad-gate", 2)
    assert run("report", saved, "--policy", "policy.toml", "--no-policy")[0] == 2


# What docs/ci.md says

GUIDE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


def test_the_policy_of_the_guide_is_one(tmp_path):
    text = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    policy = read_policy(write(tmp_path, text[1], "pyproject.toml"))
    assert {waiver.metric for waiver in policy.waivers} <= {gate.metric for gate in policy.gates}
    assert len(policy.gates) == 6 and len(policy.waivers) == 1 and not policy.pass_inconclusive


def test_the_metrics_of_the_guide_are_all_there_are():
    rows = re.findall(r"^\| (`.*?) \| (?:time|count), % \|", GUIDE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {*TIMES, *COUNTS, "generation.p99", "kernel:NAME"}
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
