"""stats: tests, intervals and noise floors; knows nothing of traces."""
