"""bench: what the benchmark itself reported of a run."""
