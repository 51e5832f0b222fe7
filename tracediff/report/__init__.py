"""report: one file an output; each takes a `tracediff.model.Result` and nothing else."""
