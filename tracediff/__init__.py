"""tracediff: what changed between two Nsight Systems captures, by how much, why, and can it be believed."""

__version__ = "0.1.0"
