"""`tracediff cache`: what is kept of exports that were read before."""

from __future__ import annotations

import click

from tracediff.cli.say import say


@click.command()
@click.option("--clear", is_flag=True, help="Remove everything that is kept.")
def cache(clear: bool) -> None:
    """Show what is kept of exports read before, and where; --clear removes it.

    An export that was read before, in the same way and by the same version, is not read again. The folder is
    $TRACEDIFF_CACHE (off: nothing is kept), else tracediff/ in $XDG_CACHE_HOME or ~/.cache. It holds at most 2 GiB: what
    was not used for longest goes first.
    """
    from tracediff.execution.cache import MOST_BYTES, entries, folder, remove_all

    where = folder()
    if where is None:
        say("switched off (TRACEDIFF_CACHE)", err=False)
        return
    if clear:
        count, size = remove_all(where)
        say(f"removed {_said(count, size)} from {where}", err=False)
        return
    found = entries(where)
    total = _said(len(found), sum(one.bytes for one in found))
    say(f"{where}: {total}, at most {MOST_BYTES >> 30} GiB", err=False)


def _said(count: int, size: int) -> str:
    exports = "1 export" if count == 1 else f"{count} exports"
    return f"{exports} in {size / 1e6:.1f} MB"
