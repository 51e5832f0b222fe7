"""execution: exports -> reductions, in processes here or on a cluster, and their cache."""
