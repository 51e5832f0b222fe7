"""How much a report says: one size for each kind of list, text and share, whatever stands in it.

Shares of a whole: what is most or nearly all of it, and what explains nothing of it, is in stats/rules.py; what is no change at all,
and what of a kernel's own time is none, in model/causes.py.
"""

from __future__ import annotations

NAMED = 3  # names that a sentence holds, causes at once, remarks of a kind; of further ones it says how many
LISTED = 10  # items of a list that is read as text
PAGE = 40  # rows of a table in the page of a comparison, and of what else opens: who needs more reads the JSON or the tables
LIMIT = 500  # rows of any table; the JSON holds the rest
NAME = 40  # letters of a name in a sentence, and of one that a column cuts
TEXT = 600  # letters of a text that came with the data: a message, a name in full
COMMIT = 10  # letters of a commit
