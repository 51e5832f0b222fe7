"""latencies: measurements without a profiler, one value an iteration."""
