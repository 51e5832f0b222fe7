"""Peak rates of GPUs as their data sheets give them: dense (no sparsity), at boost clock.

A GPU that is not here is unknown. `host` is one direction of the link to the host: data sheets give both together. `l2`, in
doubt the larger figure, only decides when operands cannot have come from the cache: there a larger cache says less.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_TERA, _GIGA, _MIB = 1e12, 1e9, 1 << 20


class Peak(msgspec.Struct, frozen=True):
    """flops: FLOP/s (OP/s of int8) by data type, fp32 outside tensor cores. memory, host: bytes/s; l2: bytes. host None: sources differ."""

    sms: int
    flops: Mapping[str, float]
    memory: float
    host: float | None
    l2: int
    source: str


def _peak(
    sms: int, memory: float, host: float | None, l2: int, source: str, *, half: float = 0.0, **other: float
) -> Peak:
    """In TFLOP/s, GB/s and MiB. `half`: bf16 and fp16."""
    both = {"bf16": half, "fp16": half} if half else {}
    flops = {name: float(round(value * _TERA)) for name, value in (both | other).items()}
    return Peak(sms, flops, memory * _GIGA, host * _GIGA if host else None, l2 * _MIB, source)


_NVIDIA = "https://www.nvidia.com/"
_A100 = f"{_NVIDIA}content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_H100 = f"{_NVIDIA}en-us/data-center/h100/"
_H100_PCIE = "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper"
_H200 = f"{_NVIDIA}en-us/data-center/h200/"


def _ampere(memory: float) -> Peak:
    return _peak(108, memory, 32, 40, _A100, half=312, tf32=156, fp32=19.5, int8=624)


# by the name that CUDA gives the device, without its maker
PEAKS: dict[str, Peak] = {
    "A100-SXM4-40GB": _ampere(1555),
    "A100-PCIE-40GB": _ampere(1555),
    "A100-SXM4-80GB": _ampere(2039),
    "A100 80GB PCIe": _ampere(1935),
    "H100 80GB HBM3": _peak(
        132, 3350, 64, 50, _H100, half=989.4, tf32=494.7, fp32=66.9, fp8=1978.9, int8=1978.9
    ),
    "H100 PCIe": _peak(114, 2000, 64, 50, _H100_PCIE, half=756, tf32=378, fp32=51.2, fp8=1513, int8=1513),
    "H200": _peak(132, 4800, 64, 60, _H200, half=989.4, tf32=494.7, fp32=66.9, fp8=1978.9, int8=1978.9),
    "B200": _peak(148, 8000, None, 128, f"{_NVIDIA}en-us/data-center/dgx-b200/", half=2250, fp8=4500),
    "L4": _peak(
        58, 300, 32, 48, f"{_NVIDIA}en-us/data-center/l4/", half=121, tf32=60, fp32=30.3, fp8=242.5, int8=242.5
    ),
    "L40S": _peak(
        142, 864, 32, 96, f"{_NVIDIA}en-us/data-center/l40s/", half=362.05, tf32=183, fp32=91.6, fp8=733, int8=733
    ),
    "A10": _peak(
        72, 600, 32, 6, f"{_NVIDIA}en-us/data-center/products/a10-gpu/", half=125, tf32=62.5, fp32=31.2, int8=250
    ),
    "T4": _peak(40, 320, 16, 4, f"{_NVIDIA}en-us/data-center/tesla-t4/", fp16=65, fp32=8.1, int8=130),
    # fp16 has two peaks there, by the type that sums are kept in, which no trace tells
    "GeForce RTX 4090": _peak(
        128, 1008, 32, 72, "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
        bf16=165.2, tf32=82.6, fp32=82.6,
    ),
}  # fmt: skip


def peak_of(name: str, sms: int) -> Peak | None:
    """The peaks of a GPU by its name; None of one that is not listed, or is a part of it. `sms`: as recorded, 0 unknown."""
    found = PEAKS.get(name.removeprefix("NVIDIA ").removeprefix("Tesla "))
    return found if found and sms in (0, found.sms) else None
