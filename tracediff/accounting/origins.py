"""Who launches each kernel: thread, innermost range and CUDA call."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracediff.accounting.grouping import count_by, grouped
from tracediff.accounting.idle import Names
from tracediff.accounting.intervals import Ints
from tracediff.trace.calls import distinct
from tracediff.trace.periods import Timeline


def origin_table(timeline: Timeline, inside: list[slice], labels: Ints, names: Names) -> pl.DataFrame:
    """key, thread, place, api -> count of the ops of whole periods, '' where the launch was not recorded.

    inside: of each unit, its ops in whole periods; labels: of each launch, the innermost range in which it began.
    """
    launches = timeline.launches
    role, place = np.zeros(len(launches.start), np.int64), np.zeros(len(launches.start), np.int64)
    for tid in distinct(launches.tid):
        mine = np.flatnonzero(launches.tid == tid)
        role[mine] = names.role(tid)
        place[mine] = names.places(tid, labels[mine], launches.start[mine])
    api = launches.api.astype(np.int64) + 1  # -1: a call without a name
    places, apis = int(place.max(initial=0)) + 1, int(api.max(initial=0)) + 1
    kinds, kind = grouped((role * places + place) * apis + api)
    counts: dict[int, int] = {}
    for unit, part in zip(timeline.units, inside, strict=True):
        launch = unit.launch[part]
        known = np.flatnonzero(launch >= 0)
        of = np.zeros(len(launch), np.int64)  # 0: not recorded
        of[known] = kind[launch[known]] + 1
        code, position = grouped(unit.key[part].astype(np.int64) * (len(kinds) + 1) + of)
        for one, many in zip(code.tolist(), count_by(position, len(code)).tolist(), strict=True):
            counts[one] = counts.get(one, 0) + many
    texts = names.tables()
    rows = []
    for one in sorted(counts):
        key, origin = divmod(one, len(kinds) + 1)
        thread = where = call = ""
        if origin:
            rest, number = divmod(int(kinds[origin - 1]), apis)
            at, spot = divmod(rest, places)
            thread, where = texts["role_name"][at], texts["place_name"][spot]
            call = timeline.api_names.get(number - 1, ("", ""))[0]
        rows.append((key, thread, where, call, counts[one]))
    schema = {"key": pl.Int64, "thread": pl.String, "place": pl.String, "api": pl.String, "count": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
