"""Names of kernels for people: rows of a table are told apart."""

from __future__ import annotations

from msgspec.structs import replace

from tests.report import sample
from tracediff.model import KernelRow, KernelSide
from tracediff.report.names import kernels, short

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def row(name: str, *grids: str, other: tuple[str, ...] | None = None) -> KernelRow:
    sides = [KernelSide([name], 1.0, 10.0, 10.0, grids=list(each)) for each in (grids, other or grids)]
    return replace(sample.full().kernels[0], match="exact", baseline=sides[0], candidate=sides[1])


def test_rows_that_look_alike_say_their_grids() -> None:
    rows = [
        row(NCCL, "8,1,1"),
        row(NCCL, "24,1,1", "16,1,1"),
        row("gemm", "4,1,1"),
        row(NCCL, "2,1,1", other=("4,1,1",)),
    ]
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    assert kernels(rows) == [f"{name} [8,1,1]", f"{name} [24,1,1 ...]", "gemm", f"{name} [2,1,1 -> 4,1,1]"]


def test_the_grid_is_inside_the_width_of_a_column() -> None:
    rows = [row(NCCL, "8,1,1"), row(NCCL, "24,1,1")]
    assert all(len(name) <= 30 for name in kernels(rows, 30))
    assert [name[-8:] for name in kernels(rows, 30)] == [" [8,1,1]", "[24,1,1]"]
    assert kernels(rows, 20)[0] == kernels(rows, 20)[1]  # too narrow: the name is worth more
    assert kernels([row("gemm"), row("gemm")]) == ["gemm", "gemm"]  # no grid is known


def test_a_retuned_kernel_says_what_differs() -> None:
    names = [
        f"void at::native::reduce_kernel<(int){one}, at::native::sum_functor<float>>(T3)"
        for one in (512, 128)
    ]
    one = replace(row(names[0], "1,1,1"), match="template", candidate=KernelSide([names[1]], 1.0, 10.0, 10.0))
    assert kernels([one]) == ["reduce_kernel<sum_functor> [512 -> 128]"]
    assert len(kernels([one], 32)[0]) == 32 and kernels([one], 32)[0].endswith(" [512 -> 128]")


def test_of_rows_with_two_names_each_has_its_grid() -> None:
    def renamed(*grids: str) -> KernelRow:
        return replace(
            row("gemm", grids[0]),
            match="sequence",
            candidate=KernelSide(["nvjet"], 1.0, 10.0, 10.0, grids=[grids[1]]),
        )

    rows = [renamed("4,1,1", "1,1,1"), renamed("8,1,1", "1,1,1")]
    assert kernels(rows) == ["gemm [4,1,1] -> nvjet [1,1,1]", "gemm [8,1,1] -> nvjet [1,1,1]"]


def test_arguments_say_nothing() -> None:
    assert short(NCCL) == "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    assert short("[memcpy HtoD]") == "[memcpy HtoD]"
    assert short("k(int)") == "k(int)"  # a letter alone is no name


def test_of_kernels_that_do_not_fit_the_first_is_named() -> None:
    """`reduce -> sum + 2 x count + scan` has 32 letters, `reduce -> sum + 2 more` 22."""
    one = row("reduce")
    several = replace(one, candidate=KernelSide(["sum", "count", "count", "scan"], 1.0, 10.0, 10.0))
    assert kernels([several]) == kernels([several], 36) == ["reduce -> sum + 2 x count + scan"]
    assert kernels([several], 30) == ["reduce -> sum + 2 more"]
    assert len(kernels([several], 16)[0]) == 16
