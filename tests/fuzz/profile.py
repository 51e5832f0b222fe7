"""How long the program is fuzzed: the same few examples in every run, or as many others as the environment says.

TRACEDIFF_FUZZ=3000 pytest tests/fuzz --hypothesis-seed=7
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ASKED = int(os.environ.get("TRACEDIFF_FUZZ", "0"))


def examples(few: int) -> settings:
    """Settings of a property: `few` examples that never change, unless more are asked for."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    if ASKED:
        return settings(max_examples=ASKED, deadline=None, suppress_health_check=slow, print_blob=True)
    return settings(
        max_examples=few, deadline=None, derandomize=True, database=None, suppress_health_check=slow
    )
