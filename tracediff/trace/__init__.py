"""trace: steps, threads, ranges, calls and periods of one capture."""
