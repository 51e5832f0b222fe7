"""Print where the time of a capture's generation steps went: `python -m tests.oracle FILE`."""

import argparse

from tests.oracle import CATEGORIES, load, periods

parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
parser.add_argument("file")
parser.add_argument("--phase", default="generation")
options = parser.parse_args()
found = [period for period in periods(load(options.file)) if period.phase == options.phase]
for rank, device in sorted({(period.rank, period.device) for period in found}):
    mine = [period for period in found if (period.rank, period.device) == (rank, device)]
    print(f"process {mine[0].pid} device {device}: {len(mine)} {options.phase} periods, us a step")
    rows = {"period": [period.period_ns for period in mine]}
    for name in CATEGORIES:
        rows[name] = [period.categories[name] for period in mine if name in period.categories]
    for name, values in rows.items():
        print(f"  {name:<16}" + (f"{sum(values) / len(mine) / 1000:12.1f}" if values else " not captured"))
    print(f"  {'kernels':<16}{sum(period.kernel_count for period in mine) / len(mine):12.1f}")
    print(f"  {'worst residual':<16}{max(abs(period.residual_ns) for period in mine):12} ns")
