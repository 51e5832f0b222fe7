"""How much of what was found is shown: the same in every table, tree, picture and sentence. What is left out is counted where it is.

These are lengths that people read; nothing is decided by them.
"""

from __future__ import annotations

ROWS = 400  # of a table; columns of a picture
PARTS = 12  # of one whole, each by itself; choices that an error names
FIRST = 3  # of several that one sentence or row is about
