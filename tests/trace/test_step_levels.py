"""Which level of the repeating launches is the step: sequences of letters, one a launch."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tracediff.trace.inference import COPY, GRAPH, LAUNCH, RESULT, SYNC, Choice, Launched, choose
from tracediff.trace.periods import blocks, cycle, repeats, segments

# A step is an embedding, layers, a head and a sampler; its tokens are copied to the host (<), which waits (|).
LAYER = "nqkvaodmnugd"
STEP = "e" + LAYER * 6 + "hs<|"
CONTEXT = "e" + LAYER.replace("a", "A") * 6 + "hs<|"
NAMES = {"s": "sampling", "w": "optimiser", "e": "embedding"}


def launched(text: str, graphs: str = "", named: str = "", nodes: int = 100) -> Launched:
    """One launch a letter, 100 ns apart. `graphs`: letters that are graphs of `nodes` ops, in which layers repeat.

    | is a wait of 1000 ns; < a copy to the host; > one to the device; `named`: letters whose name says what they are.
    """
    letters = [letter for letter in text if letter != "|"]
    waits = np.cumsum([letter != "|" for letter in text])[[letter == "|" for letter in text]]
    alphabet = sorted(set(letters))
    token = np.array([alphabet.index(letter) for letter in letters], np.int64)
    start = 100 * np.arange(len(letters)) + 1000 * np.searchsorted(
        waits, np.arange(len(letters)), side="right"
    )
    is_graph = np.array([letter in graphs for letter in letters], np.bool_)
    anchors: dict[str, list[np.ndarray]] = {}
    for letter in named:
        anchors.setdefault(NAMES[letter], []).append(np.array([one == letter for one in alphabet], np.int64))
    return Launched(
        start=start,
        end=start + 20,
        token=token,
        ops=np.where(is_graph, nodes, 1),
        kernels=np.array([nodes if letter in graphs else letter not in "<>" for letter in letters], np.int64),
        graph=is_graph,
        reads_back=np.array([letter == "<" for letter in letters], np.bool_),
        waits=waits.astype(np.int64),
        anchors=anchors,
        repeats=np.array([letter in graphs for letter in alphabet], np.bool_),
    )


def chosen(text: str, **how) -> tuple[str, list[int]]:
    """What begins the steps, and the first launch of each."""
    level = choose(launched(text, **how), []).level
    assert level is not None
    return level.mark.event, level.steps.tolist()


def refused(text: str, layers: list[np.ndarray] | None = None, **how) -> Choice:
    choice = choose(launched(text, **how), layers or [], all_events=True)
    assert choice.level is None
    return choice


def test_the_host_waits_for_the_tokens_of_a_step():
    """1 + 6 * 12 + 2 kernels and the copy: 76 launches."""
    assert chosen(STEP * 10) == (RESULT, [76 * step for step in range(10)])


def test_prefills_among_decodes_are_steps():
    event, starts = chosen((CONTEXT + STEP * 7) * 4 + CONTEXT + STEP * 11)
    assert (event, starts) == (RESULT, [76 * step for step in range(44)])


def test_kernels_that_change_with_the_length_of_the_cache():
    """Every eighth step pads; the attention of later steps is another kernel."""
    late = STEP.replace("a", "b")
    early = (STEP.replace("hs", "phs") + STEP * 7) * 3
    event, starts = chosen(early + late * 20, named="s")
    assert event == RESULT
    assert len(starts) == 44
    assert starts[24:] == [24 * 76 + 3 + 76 * step for step in range(20)]


@pytest.mark.parametrize("named", ["", "s"])
def test_generate_waits_twice_for_a_token(named):
    """It asks whether the mask is full (f) before the layers, and whether all sequences are done (t) after them."""
    token = "e" + "xf<|" + LAYER * 6 + "hsyt<|"
    event, starts = chosen(token * 12, named=named)
    assert event == RESULT
    assert set(np.diff(starts)) == {len(token) - 2}  # two waits are no launches
    # with the sampler's name the step begins after t; without, where the host pauses as long: the first one found
    assert starts[1] % (len(token) - 2) in ((0,) if named else (0, 4))


def test_generate_waits_twice_after_the_same_kernel():
    """Both questions end in one kernel (t): what was launched before it tells them apart."""
    token = "e" + "xyt<|" + LAYER * 6 + "hszt<|"
    event, starts = chosen(token * 12, named="s")
    assert (event, starts) == (RESULT, [(len(token) - 2) * step for step in range(12)])


def test_a_few_steps_end_in_another_kernel():
    """A level that leaves them out alternates with the one of all steps, nearly; it is not taken for it."""
    text = "".join(STEP[:-2] + ("v<|" if step % 15 == 7 else "<|") for step in range(60))
    event, starts = chosen(text, named="se")
    assert (event, len(starts)) == (RESULT, 60)


def test_most_steps_hold_prefills():
    """Most steps sample for one or two prefills as well, now and then: fewer than half hold one sampler only."""
    decode, prefill = STEP[:-2], CONTEXT[:-2]
    rng = random.Random(2)
    steps = [prefill * rng.choice((0, 1, 2)) + decode + "<|" for _ in range(45)]
    event, starts = chosen("".join(steps), named="s")
    assert (event, len(starts)) == (RESULT, 45)


def test_a_wait_in_every_layer_for_a_result():
    """A router that is read back: the finest level comes in a cycle of seven, and the sampler is in every seventh."""
    step = "e" + (LAYER + "r<|") * 6 + "hs<|"
    for named in ("", "s"):
        event, starts = chosen(step * 10, named=named)
        assert (event, starts) == (RESULT, [(len(step) - 7) * number for number in range(10)])


def test_requests_of_one_length_are_no_steps():
    """Six requests of a prefill and 19 tokens repeat as regularly as layers do; the sampler runs once a token."""
    request = CONTEXT + STEP * 19
    event, starts = chosen(request * 6, named="s")
    assert (event, len(starts)) == (RESULT, 120)


def test_a_layer_that_synchronises_is_no_step():
    event, starts = chosen(("e" + (LAYER + "|") * 6 + "hs<|") * 8)
    assert (event, starts) == (RESULT, [76 * step for step in range(8)])


def test_a_wait_for_a_copy_to_the_device_is_none_for_a_result():
    """The program polls for its tokens (no wait); a prefill waits for its inputs."""
    rng = random.Random(3)
    text, starts, place = "", [], 0
    for _ in range(60):
        step = ("i>|" if rng.random() < 0.3 else "") + "G<"
        starts.append(place)
        place += len(step.replace("|", ""))
        text += step
    assert chosen(text, graphs="G") == (COPY, starts)


def test_a_graph_of_each_batch_size():
    assert chosen("G<|" * 12 + "B<|" * 6 + "G<|" * 6, graphs="GB") == (RESULT, list(range(0, 48, 2)))


def test_a_prefill_at_the_edge_is_no_step_and_its_launches_are_in_none():
    """Nothing else in the capture is like it: it may be a part."""
    event, starts = chosen("xyzxyzuvw<|" + STEP * 8)
    assert (event, starts) == (RESULT, [10 + 76 * step for step in range(8)])


def test_a_cut_edge():
    """The capture begins and ends inside a step: the first one is left out, the last start closes the one before."""
    event, starts = chosen(STEP[40:] + STEP * 8 + STEP[:30])
    assert (event, starts) == (RESULT, [36 + 76 * step for step in range(9)])


def test_two_copies_with_a_wait_each_are_one_step():
    """The second segment would hold no kernel."""
    assert chosen("ekkkhs<|<|" * 20) == (RESULT, [8 * step for step in range(20)])


def test_inputs_before_a_graph_belong_to_its_step():
    assert chosen(">>G<|" * 20, graphs="G") == (RESULT, [4 * step for step in range(20)])


def test_graphs_that_nobody_waits_for():
    assert chosen(">G" * 30, graphs="G") == (GRAPH, list(range(1, 60, 2)))


def test_a_graph_for_each_piece_of_a_model():
    """Pieces come in a cycle; the copy of the tokens ends it."""
    event, starts = chosen("FaMaMaMaMaHs<" * 20, graphs="FMH")
    assert (event, starts) == (COPY, [13 * step for step in range(20)])


TRAINING = "e" + LAYER * 5 + "hl" + "GQKVODMNUX" * 5 + "cwz"


@pytest.mark.parametrize("named", ["", "w"])
def test_training_that_reads_its_loss_every_step(named):
    event, starts = chosen((TRAINING + "<|") * 9, named=named)
    assert (event, starts) == (RESULT, [117 * step for step in range(9)])


def test_training_that_reads_its_loss_every_fifth_step():
    """The host waits for five steps at once; the optimiser runs once in each."""
    event, starts = chosen((TRAINING * 4 + TRAINING + "<|") * 6, named="w")
    assert event == LAUNCH
    assert 29 <= len(starts) <= 31
    assert set(np.diff(starts[1:])) == {116, 117}


@pytest.mark.parametrize("named", ["", "w"])
def test_training_that_reads_its_loss_two_or_three_times(named):
    """41 steps in which layers repeat are no less steps for what the host waits for in between."""
    for waits in (2, 3):
        text = (TRAINING * (40 // waits) + "v<|") * waits + TRAINING * (41 - 40 // waits * waits)
        found = choose(launched(text, named=named), [])
        assert found.level is not None
        assert (found.level.mark.event, found.level.confidence) == (LAUNCH, 1.0)
        assert 40 <= found.level.count <= 42


def test_a_scaler_waits_before_the_optimiser():
    """Gradients are looked at (<|), then the optimiser runs (ww): it belongs to the step before."""
    step = "e" + LAYER * 5 + "hl" + "GQKVODMNUX" * 5 + "f<|" + "cwwz"
    event, starts = chosen(step * 9, named="w")
    # 119 launches; the wait is behind the 115th, the last w is the 118th; behind the last wait only an optimiser is left
    assert event == RESULT
    assert starts == [0, *(118 + 119 * step for step in range(8)), 115 + 119 * 8]


def test_what_generate_asks_before_the_first_step_of_a_request_is_no_step():
    """Two questions about the request (q, r) with a wait each; the step begins with the embedding, as the others do."""
    token = "c" + STEP[:-2] + "yt<|"
    request = "iiq<|jjjr<|kk"
    setup = len(request) - 2
    event, starts = chosen((request + token * 9) * 8, named="se")
    launches = len(token) - 1
    assert event == RESULT
    assert starts == [
        (setup + 9 * launches) * number + setup + launches * step for number in range(8) for step in range(9)
    ]


def test_training_that_never_waits():
    event, starts = chosen(TRAINING * 20)
    assert event == LAUNCH
    assert set(np.diff(starts[1:])) == {116}  # the first one may be cut


def test_a_kernel_that_runs_at_times_makes_no_step():
    """Every eighth token pads: eight tokens repeat as well as one does, but one kernel alone says so."""
    token = "e" + LAYER * 6 + "hs"
    event, starts = chosen(("p" + token + token * 7) * 6)
    assert event == LAUNCH
    assert set(np.diff(starts)) <= {75, 76}


def test_a_benchmark_that_synchronises_after_each_step():
    event, starts = chosen(("e" + LAYER * 6 + "h|") * 20)
    assert (event, starts) == (SYNC, [74 * step for step in range(20)])


def test_layers_with_a_synchronisation_each_are_not_taken_for_steps():
    """Blocks gathered from other devices: the host synchronises and waits for no result, nothing repeats inside."""
    choice = refused(("c" + LAYER + "|") * 60)
    assert choice.refusal == "may-be-layers"
    assert {one.mark.event for one in choice.found} == {SYNC, LAUNCH}
    assert max(one.confidence for one in choice.found) == 0.5


def test_segments_that_are_ranges_named_like_layers():
    text = ("e" + LAYER * 6 + "h|") * 20
    assert refused(text, [np.arange(0, 20 * 74, 74)]).refusal == "layers"


def test_one_kernel_only():
    assert refused("k|" * 50).refusal == "one-kernel"
    assert chosen("k<|" * 50) == (RESULT, list(range(0, 100, 2)))


def test_few_repetitions():
    assert refused(STEP * 4).refusal == "few"
    assert len(chosen(STEP * 5)[1]) == 5


def test_nothing_repeats():
    rng = np.random.default_rng(1)
    text = "".join(chr(97 + letter) for letter in rng.integers(0, 26, 5000))
    assert refused(text).refusal in ("unsure", "nothing-repeats")
    assert choose(launched(""), []).refusal == "nothing-repeats"


def test_a_corner_of_the_capture_is_no_loop():
    """Under 60 % of the ops repeat."""
    setup = "".join(chr(1000 + index) for index in range(1000))
    assert refused(setup + STEP * 10).refusal in ("unsure", "nothing-repeats")
    assert chosen(setup[:300] + STEP * 10)[1] == [376 + 76 * step for step in range(9)]


# --- segments


def test_segments_of_one_class_hold_about_the_same():
    """13 of 14 launches are the same: 1 - 2 * 13 / 28 = 0.07; of 7, with three others, 4: 1 - 2 * 4 / 14 = 0.43."""
    first, near, far = "abcdefghijklmn", "abcdefghijklmo", "abcdxyz"
    text = first * 4 + near + far
    token = np.array([ord(letter) for letter in text], np.int64)
    start = np.array([0, 14, 28, 42, 56, 70])
    cut = segments(start, token, np.ones(len(text), np.int64))
    assert cut.kind.tolist() == [0, 0, 0, 0, 0, 1]
    assert cut.recurring.tolist() == [True] * 5 + [False]
    assert cut.alike == 1.0  # edges do not count


def test_another_order_of_the_same_content():
    text = "abcdef" * 3 + "fdbeca" + "abcdef"
    token = np.array([ord(letter) for letter in text], np.int64)
    cut = segments(np.arange(0, 30, 6), token, np.ones(30, np.int64))
    assert set(cut.kind) == {0}
    assert cut.ordered == pytest.approx(2 / 3)  # of the three between the edges


def test_a_run_of_one_launch_counts_once():
    text = "abbbc" + "abc" + "abbbbbbc" + "abc"
    token = np.array([ord(letter) for letter in text], np.int64)
    cut = segments(np.array([0, 5, 8, 16]), token, np.ones(len(text), np.int64))
    assert set(cut.kind) == {0}
    assert (cut.known, cut.ordered) == (1.0, 1.0)


def test_an_order_that_recurs_is_one():
    """A step is a graph between copies; every second one clears the state of a request first, which makes three of its four threes others."""
    starts = sorted([*range(0, 96, 8), *range(3, 96, 8)])
    assert chosen((">G<|" + "zz>G<|") * 12, graphs="G") == ("result", starts)


def test_drafts_may_be_parts_of_a_step():
    """Speculative decoding: two to five drafts with a sampler and a wait each, then the main model, whose result is read otherwise."""
    rng = random.Random(1)
    draft, verify = "e" + LAYER * 2 + "hs<|", LAYER.replace("a", "A") * 6 + "Hr<|"
    found = choose(launched("".join(draft * rng.randint(2, 5) + verify for _ in range(30)), named="se"), [])
    assert found.level is not None and found.level.count > 60
    assert found.outer is not None
    assert (found.outer.level.count, found.outer.least, found.outer.most) == (30, 2, 5)


def test_sampled_tokens_before_an_optimiser_may_be_parts_of_a_step():
    """Eight rollouts of 24 tokens, each with a step of training: the last wait of a rollout is for its loss."""
    rollout = STEP * 24 + LAYER.upper() * 8 + "wwwl<|"
    found = choose(launched(rollout * 8, named="sew"), [])
    assert found.level is not None and found.outer is not None
    assert (found.level.count, found.outer.level.count) == (8 * 25, 8)


def test_tokens_of_requests_are_no_parts():
    """Twelve requests of 15 to 25 tokens, each with a wait of its own in its prefill."""
    rng = random.Random(1)
    request = "e" + LAYER * 6 + "p<|" + "hs<|"
    found = choose(launched("".join(request + STEP * rng.randint(15, 25) for _ in range(12)), named="se"), [])
    assert found.level is not None and found.outer is None


def test_cycles():
    assert cycle(np.array([9, *[0, 1, 1, 1] * 8, 9])) == 4
    assert cycle(np.array([0] * 40)) == 0
    assert cycle(np.array([0] * 20 + [1] * 20 + [0] * 10)) == 0, "batches of one size after the other"


def test_blocks_of_steps():
    """Five steps that one wait follows: each has an embedding, six layers and a head."""
    step = "e" + LAYER * 6 + "h"
    letters = np.array([ord(letter) for letter in step * 5 + "l<"], np.int64)
    assert blocks(letters) == 5
    assert blocks(letters[: len(step)]) == 1, "layers are no steps"


def test_a_part_that_repeats():
    assert repeats(np.array([0, *[1, 2, 3, 4] * 5, 5]))
    assert not repeats(np.array([1, 2, 3, 4, 5, 6, 7, 1, 8, 9]))


SMALL = "e" + "NQKVAODMNUGD" * 2 + "hs"  # of a draft model: 2 layers for 6


@pytest.mark.parametrize("drafts", [2, 5, 7, 16, 32])  # the last two are codebooks of a frame of speech
@pytest.mark.parametrize("read", ["", "<|"])
def test_drafts_and_their_check_are_one_step(drafts: int, read: str):
    """Of 76 launches the check, and of 27 each draft, 29 where the host reads its token: each of them samples."""
    length = 76 + drafts * (27 + (read == "<|"))
    event, starts = chosen(((SMALL + read) * drafts + STEP) * 12, named="s")
    assert (event, starts) == (RESULT, [length * step for step in range(12)])


def test_tokens_of_a_request_are_steps_however_the_prefill_is_made():
    """Five tokens a request, read at its end. A prefill holds more kernels for the same layers, not twice as many."""
    prefill = "e" + LAYER.replace("a", "AxB").replace("q", "qr") * 6 + "hs"
    _, starts = chosen((prefill + STEP[:-2] * 4 + STEP) * 12, named="s")
    assert len(starts) == 72
