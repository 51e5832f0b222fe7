"""What arrays hold, as types; what is NaN in them is None elsewhere."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Hashes: TypeAlias = npt.NDArray[np.uint64]


def known(value: float) -> float | None:
    """A number that a result can hold: None in place of NaN."""
    return None if np.isnan(value) else float(value)
