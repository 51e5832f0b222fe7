"""SASS opcodes by class, for the instruction mix.

After the instruction set tables of NVIDIA's CUDA Binary Utilities:
https://docs.nvidia.com/cuda/cuda-binary-utilities/index.html#instruction-set-reference
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The first pattern that an opcode begins with wins.
_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("tensor", r"(?:H|I|B|D|Q|O)(?:G)?MMA|WGMMA|WARPGROUP|UTC\w*MMA|UT\w*MMA"),
        (
            "global memory",
            r"LDG|STG|LDGSTS|UBLKCP|UTMA|UBLKPF|UBLKRED|CCTL|LD(?!\w)|ST(?!\w)|LDGDEPBAR|DEPBAR",
        ),
        ("shared memory", r"LDS|STS|LDSM|STSM|ATOMS|LDTM|STTM"),
        ("local memory", r"LDL|STL"),
        ("atomics", r"ATOM|RED(?!UX)"),
        ("fp64", r"D(?:ADD|FMA|MUL|SETP|MNMX)"),
        ("half", r"H(?:ADD|FMA|MUL|SET|MNMX)"),
        ("fp32", r"F(?:ADD|FMA|MUL|SET|SETP|MNMX|CHK|SEL|SWZADD|RND)|MUFU"),
        ("conversion", r"F2F|F2I|I2F|I2I|F2FP|I2FP|I2IP|FRND"),
        ("barriers", r"BAR|SYNCS|MEMBAR|ERRBAR|WARPSYNC|FENCE|UCGABAR|ARRIVES|NANOSLEEP|YIELD|B2R"),
        (
            "control",
            r"BRA|BRX|JM|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BREV_|BMOV|KILL|NOP|BPT|PREEXIT|ACQBULK|ELECT|VOTE|PLOP",
        ),
        (
            "integer",
            r"U?(?:IADD|IMAD|IMUL|ISETP|IMNMX|ISCADD|LEA|LOP|SHF(?!L)|SHL|SHR|POPC|FLO|BREV|IABS|IDP|VABSDIFF|PRMT|SGXT|BMSK|SEL|VIADD|VIMNMX)",
        ),
        ("moves", r"U?MOV|S2R|S2UR|CS2R|R2UR|R2P|P2R|LDC|ULDC|SHFL|MATCH|REDUX|UP2UR|MOVM|LEPC|CREDUX"),
    )
)


def classes(opcodes: Mapping[str, float]) -> dict[str, float]:
    """Class -> warp instructions, most first; what no class has is `other`."""
    found: dict[str, float] = {}
    for opcode, count in opcodes.items():
        name = next((name for name, pattern in _CLASSES if pattern.match(opcode)), "other")
        found[name] = found.get(name, 0.0) + count
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
