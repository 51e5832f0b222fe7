"""capture: plans, nsys command lines, paired runs, manifests, scrubbing. Leaves exports that `formats` reads."""
