"""Names of kernels for people: rows of a table are told apart."""

from __future__ import annotations

from msgspec.structs import replace

from tests.report import sample
from tracediff.model import KernelRow, KernelSide
from tracediff.report.names import cut, kernels, short

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def row(name: str, *grids: str, other: tuple[str, ...] | None = None) -> KernelRow:
    sides = [KernelSide([name], 1.0, 10.0, 10.0, grids=list(each)) for each in (grids, other or grids)]
    return replace(sample.full().kernels[0], match="exact", baseline=sides[0], candidate=sides[1])


def said(rows: list[KernelRow], width: int = 200) -> list[str]:
    return [name.text(width) for name in kernels(rows, width)]


def test_rows_that_look_alike_say_their_grids() -> None:
    rows = [
        row(NCCL, "8,1,1"),
        row(NCCL, "24,1,1", "16,1,1"),
        row("gemm", "4,1,1"),
        row(NCCL, "2,1,1", other=("4,1,1",)),
    ]
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    assert said(rows) == [f"{name} [8,1,1]", f"{name} [24,1,1 ...]", "gemm", f"{name} [2,1,1 -> 4,1,1]"]


def test_a_row_that_looks_like_one_that_is_not_listed_says_its_grid() -> None:
    """`cast` is new in grid 9; in grid 4 both sides launch it: a row that only says `cast` would be new."""
    new = replace(row("cast", "9,1,1"), baseline=None)
    (name,) = kernels([new], 200, others=[row("cast", "4,1,1")])
    assert name.text() == "cast [9,1,1]" and kernels([new], 200)[0].text() == "cast"
    both = row("cast", "9,1,1")
    assert kernels([both], 200, others=[row("cast", "4,1,1")])[0].text() == "cast"


def test_the_grid_is_inside_the_width_of_a_column() -> None:
    rows = [row(NCCL, "8,1,1"), row(NCCL, "24,1,1")]
    assert all(len(name) <= 30 for name in said(rows, 30))
    assert [name[-8:] for name in said(rows, 30)] == [" [8,1,1]", "[24,1,1]"]
    assert said(rows, 20)[0] == said(rows, 20)[1]  # too narrow: the name is worth more
    assert said([row("gemm"), row("gemm")]) == ["gemm", "gemm"]  # no grid is known


def test_a_retuned_kernel_says_what_differs() -> None:
    names = [
        f"void at::native::reduce_kernel<(int){one}, at::native::sum_functor<float>>(T3)"
        for one in (512, 128)
    ]
    one = replace(row(names[0], "1,1,1"), match="template", candidate=KernelSide([names[1]], 1.0, 10.0, 10.0))
    assert said([one]) == ["reduce_kernel<sum_functor> [512 -> 128]"]
    assert len(said([one], 32)[0]) == 32 and said([one], 32)[0].endswith(" [512 -> 128]")


def test_of_rows_with_two_names_each_has_its_grid() -> None:
    def renamed(*grids: str) -> KernelRow:
        return replace(
            row("gemm", grids[0]),
            match="sequence",
            candidate=KernelSide(["nvjet"], 1.0, 10.0, 10.0, grids=[grids[1]]),
        )

    rows = [renamed("4,1,1", "1,1,1"), renamed("8,1,1", "1,1,1")]
    assert said(rows) == ["gemm [4,1,1] -> nvjet [1,1,1]", "gemm [8,1,1] -> nvjet [1,1,1]"]


def test_arguments_say_nothing() -> None:
    assert short(NCCL) == "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    assert short("[memcpy HtoD]") == "[memcpy HtoD]"
    assert short("k(int)") == "k(int)"  # a letter alone is no name
    returns = "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, (int)7, (bool)0>(T13)"
    assert short(returns) == "gemvx::kernel<7, 0>"


def test_of_kernels_that_do_not_fit_the_first_is_named() -> None:
    """`reduce -> sum + 2 x count + scan` has 32 letters, `reduce -> sum + 2 more` 22."""
    one = row("reduce")
    several = replace(one, candidate=KernelSide(["sum", "count", "count", "scan"], 1.0, 10.0, 10.0))
    assert said([several]) == said([several], 36) == ["reduce -> sum + 2 x count + scan"]
    assert said([several], 30) == ["reduce -> sum + 2 more"]
    assert len(said([several], 16)[0]) == 16


def test_each_side_of_a_renamed_kernel_is_cut_by_itself() -> None:
    """A name that holds an arrow is not two names; `aaaa...` and `bbbb...` share 16 letters beside the arrow's four."""
    one = replace(row("a" * 30), match="sequence", candidate=KernelSide(["b" * 30], 1.0, 10.0, 10.0))
    cell = kernels([one], 112)[0].cell(112)
    assert cell.sides == ("a" * 30, "b" * 30)
    assert cut(cell.sides, 20) == "aaaa\u2026aaa -> bbbb\u2026bbb"
    assert cut(("f -> g(int, long)",), 9) == "f -> \u2026ng)"
