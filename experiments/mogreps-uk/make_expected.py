#!/usr/bin/env python3
"""Writes expected.json: scores of the raw MOGREPS-UK ensembles where analyses exist.

    python make_expected.py ../../../shared/data/mogreps-uk > expected.json

Needs numpy, netCDF4 and scoringrules; tested with numpy 2.4, netCDF4 1.7 and
scoringrules 0.10. All points of all three dates have equal weights.

    crps_plain, crps_fair   of the members;  crps_gauss  of their mean and spread
    rmse, bias              of their mean;   spread      RMS over points, divisor M-1
    spread_skill            sqrt((M+1)/M) spread / rmse
    ranks                   share of the analysis's places among the members; an analysis that
                            equals k members shares its case among k+1 places
"""
import glob
import json
import sys

import netCDF4
import numpy as np
import scoringrules as sr

SETS = {"t2m": "air_temperature", "wind10m": "wind_speed", "sites-t2m": "air_temperature"}


def read(pattern, name):
    out = []
    for path in sorted(glob.glob(pattern)):
        with netCDF4.Dataset(path) as d:
            v = d[name]
            x = np.asarray(v[:], np.float64)
            order = [i for i, dim in enumerate(v.dimensions) if dim == "realization"] + [i for i, dim in enumerate(v.dimensions) if dim != "realization"]
            x = x.transpose(order)
            out.append(x.reshape(x.shape[0], -1) if "realization" in v.dimensions else x.reshape(-1))
    return np.stack(out)


sets = {}
for name, variable in SETS.items():
    x = np.moveaxis(read(f"{sys.argv[1]}/{name}/history/*.nc", variable), 1, -1)  # [date, point, member]
    y = read(f"{sys.argv[1]}/{name}/truth/*.nc", variable)
    m = x.shape[-1]
    mean, std = x.mean(axis=-1), x.std(axis=-1, ddof=1)
    fine = std > 0
    gauss = np.where(fine, sr.crps_normal(y, mean, np.where(fine, std, 1)), np.abs(y - mean))
    below, equal = (x < y[..., None]).sum(axis=-1), (x == y[..., None]).sum(axis=-1)
    ranks = np.array([(((below <= k) & (k <= below + equal)) / (equal + 1)).mean() for k in range(m + 1)])
    scores = {
        "crps_plain": sr.crps_ensemble(y, x, estimator="nrg").mean(),
        "crps_fair": sr.crps_ensemble(y, x, estimator="fair").mean(),
        "crps_gauss": gauss.mean(),
        "rmse": np.sqrt(((mean - y) ** 2).mean()),
        "bias": (mean - y).mean(),
        "spread": np.sqrt((std**2).mean()),
    }
    scores["spread_skill"] = np.sqrt((m + 1) / m) * scores["spread"] / scores["rmse"]
    sets[name] = {"members": m, "points": y.size, "scores": {k: float(f"{v:.9g}") for k, v in scores.items()},
                  "ranks": [float(f"{r:.8g}") for r in ranks]}

print('{"about": "written by make_expected.py: NumPy %s, scoringrules %s",\n "sets": {\n  %s\n }}'
      % (np.__version__, sr.__version__, ",\n  ".join(f'"{k}": {json.dumps(v)}' for k, v in sets.items())))
