"""ncu: profiles of Nsight Compute."""
