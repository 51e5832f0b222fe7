"""The command line of tests/cli."""

from tests.cli.conftest import good, run

__all__ = ["good", "run"]
