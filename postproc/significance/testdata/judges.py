"""Computes the results in judges.json by other people's programs, from the series in it.

Command: python judges.py > new.json && mv new.json judges.json
(scores 2.7.0, scipy 1.17.1, xarray)

dm: differences of two scores [date], with the statistic for each horizon h. bh: p-values [test], and which are selected
at a false discovery rate of 10 %. The series were random numbers of numpy.random.default_rng(7).
"""
import json

import xarray as xr
from scipy import stats
from scores.stats.statistical_tests import diebold_mariano

with open("judges.json") as f:
    given = json.load(f)
dm = {"diff": given["dm"]["diff"], "rows": []}
for h in (1, 2, 4):
    series = xr.DataArray([dm["diff"]], dims=("lead", "valid"), coords={"lead": [1], "h": ("lead", [h])})
    r = diebold_mariano(series, "lead", "h", method="HLN", statistic_distribution="t")
    dm["rows"].append(dict(h=h, statistic=float(r.dm_test_stat[0]), p_above=float(r.confidence_gt_0[0])))
p = given["bh"]["p"]
bh = {"p": p, "decided": (stats.false_discovery_control(p) <= 0.1).tolist()}
print(json.dumps(dict(dm=dm, bh=bh), allow_nan=False))
