"""`python -m tracediff_emulator`. The workers need a module of a name: what is run so has none in other processes."""

from tracediff_emulator.serve import main

main()
