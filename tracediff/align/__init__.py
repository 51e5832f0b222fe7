"""align: steps, strata, threads, ranges and kernels: what of one run corresponds to what of another."""
