"""`python -m tracediff`."""

from tracediff.cli.main import main

main()
