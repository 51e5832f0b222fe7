"""The source of docs/notebook.ipynb; docs/make_notebook.py executes it."""

# %% [markdown]
# # A comparison in Python
#
# Two captures of a serving loop on an H200, both in this repository. In the candidate the gate and up projections of every layer are
# fused into one GEMM. This notebook is made from `docs/notebook.py`; its outputs are those of this code.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl

import tracediff

pl.Config.set_tbl_formatting("ASCII_MARKDOWN").set_tbl_hide_dataframe_shape(True).set_fmt_str_lengths(60)
pl.Config.set_tbl_width_chars(140).set_tbl_hide_column_data_types(True).set_float_precision(1)
root = next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "fixtures" / "demo").is_dir())
baseline, candidate = root / "fixtures/demo/graph_a", root / "fixtures/demo/graph_fused"

# %% [markdown]
# ## What changed
#
# Three runs per side: a folder holds one export per run.

# %%
comparison = tracediff.compare(baseline, candidate)
comparison

# %% [markdown]
# Findings are causes, ranked by the time that survives its uncertainty. Deltas are candidate - baseline: negative is faster.

# %%
print(comparison.findings.select("rank", "cause", "delta_ns", "ci_low_ns", "ci_high_ns", "level").head(5))

# %%
for title in comparison.findings["title"].head(3):
    print("-", title)

# %% [markdown]
# ## Kernels
#
# Kernels of both sides are matched, every op in exactly one row: so the rows add up to the time that the GPU was busy.

# %%
changed = comparison.kernels.filter(pl.col("level") != "within_noise").select(
    "match",
    "category",
    pl.col("baseline_names").list.len().alias("before"),
    pl.col("candidate_names").list.len().alias("after"),
    "baseline_count_per_step",
    "candidate_count_per_step",
    "delta_ns",
)
print(changed.head(5))

# %%
busy = comparison.accounting.filter(pl.col("category").is_in(["compute", "comm", "memcpy"]))
total = comparison.kernels["baseline_ns_per_step"].sum()
print(f"kernels {total:.0f} ns a step, accounting {busy['baseline_ns'].sum():.0f} ns")

# %% [markdown]
# ## A figure

# %%
steps = comparison.samples.filter(pl.col("phase") == "generation")
figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
for side, color in (("baseline", "#555555"), ("candidate", "#1f77b4")):
    times = steps.filter(pl.col("side") == side)["period_ns"].sort() / 1e3
    axes.step(
        times, [(rank + 1) / len(times) for rank in range(len(times))], where="post", label=side, color=color
    )
axes.set(xlabel="time of a generation step, us", ylabel="share of steps", ylim=(0, 1))
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## One capture, and its slowest step
#
# The slowest step stands beside the typical step of its class.

# %%
report = tracediff.show(candidate, worst=1)
print(report.sentence)
print(report.chosen_places.select("cause", "title", "ns", "typical_ns", "delta_ns").head(3))

# %% [markdown]
# ## Your own questions, in SQL
#
# [sql.md](sql.md) lists the tables. Here: how many kernels a step launches, and what the GPU is idle for.

# %%
query = """
SELECT p.phase, count(DISTINCT p.step) AS steps, sum(k.ops) / count(DISTINCT p.step) AS ops_a_step
FROM period AS p JOIN kernel_by_step AS k USING (capture, rank, device, step)
WHERE k.kind = 'kernel'
GROUP BY p.phase ORDER BY p.phase
"""
for folder in (baseline, candidate):
    with tracediff.open(sorted(folder.glob("*.xz"))[0]) as capture:
        print(capture.sql(query))

# %%
with tracediff.open(sorted(baseline.glob("*.xz"))[0], sorted(candidate.glob("*.xz"))[0]) as captures:
    print(
        captures.sql("""
        SELECT cause, sum(idle_ns) / (SELECT count(*) FROM baseline.period) AS ns_a_step
        FROM baseline.idle GROUP BY cause ORDER BY ns_a_step DESC LIMIT 4
        """)
    )

# %% [markdown]
# ## Keep it
#
# `comparison.to_html("report.html")` writes the page, `comparison.to_json("result.json")` the result, which `tracediff report` renders again.
