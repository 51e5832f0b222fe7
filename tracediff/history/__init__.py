"""Results over time: a store of points that several writers share, and what changed between them."""
