"""`python -m tracediff`."""

from tracediff.cli.main import program

program()
