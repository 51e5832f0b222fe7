"""steps: the events of sampled steps, for timelines in HTML and Perfetto."""
