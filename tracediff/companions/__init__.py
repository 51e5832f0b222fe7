"""companions: what stands beside a comparison of traces; each reads, compares, models and renders its own."""
