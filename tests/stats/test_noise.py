"""Run-to-run noise of a difference: repeats, steadied by an assumed noise."""

from __future__ import annotations

import numpy as np
import pytest

from tracediff.stats.noise import moderated_noise


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_repeats_and_assumed_noise_weigh_by_their_degrees_of_freedom():
    # Repeats 0, 2 and 0, 4: variances 2 and 8, one degree of freedom each. (4 * 100 + 2 + 8) / 6 = 68.33; t of 6 df is 2.4469
    assumed = np.array([1.96 * np.sqrt(2) * 10])
    noise = moderated_noise([column(0.0, 2.0), column(0.0, 4.0)], assumed, 2, 2)
    assert noise[0] == pytest.approx(2.4469 * np.sqrt(410 / 6 * (1 / 2 + 1 / 2)), rel=1e-4)
