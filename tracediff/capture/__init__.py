"""capture: nsys command lines, paired runs, manifests, scrubbing. Leaves exports that load/ reads."""
