"""A slow, plain reading of the accounting: sqlite3, lists and loops, nothing shared with the program.

It exists to be compared with. Every definition is written the way a reader would say it, and nothing is
clever: time is cut at every instant where anything changes, and each piece is looked at by itself.
"""

from tests.oracle.accounting import CATEGORIES, Gap, Period, ThreadTime, periods, thread_totals
from tests.oracle.capture import Capture, load, mask_numbers

__all__ = ["CATEGORIES", "Capture", "Gap", "Period", "ThreadTime", "load", "mask_numbers", "periods",
           "thread_totals"]  # fmt: skip
