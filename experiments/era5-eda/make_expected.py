#!/usr/bin/env python3
"""Writes expected.json: spread and features of the ERA5 ensemble, computed by NumPy.

    python make_expected.py ../../../shared/data/era5-eda > expected.json

Needs numpy and eccodes; tested with numpy 2.4 and eccodes 2.50. Independent of this
program: only the formulas are the same.

    spread    standard deviation over the ten members, divisor 9
    weights   cos(latitude); a pole's row has the eighth of the row distance (radians)
    features  of members 0-4 at the last time, scales from the first two times:
              spread(v)  divisor 5 (as the published networks), over its RMS
              first(v)   member 0 minus its mean, over its standard deviation
"""
import glob
import json
import sys

import eccodes
import numpy as np

MARKS = [(0, 0), (15, 30), (19, 34), (45, 117)]  # row from the north, column from 0 E
TIMES = ["2017-01-01T00:00:00Z", "2017-01-01T12:00:00Z", "2017-01-02T00:00:00Z"]

fields = {}
for path in sorted(glob.glob(sys.argv[1] + "/*.grib")):
    with open(path, "rb") as f:
        while (h := eccodes.codes_grib_new_from_file(f)) is not None:
            date, hour = eccodes.codes_get(h, "dataDate"), eccodes.codes_get(h, "dataTime") // 100
            time = f"{date // 10000}-{date // 100 % 100:02}-{date % 100:02}T{hour:02}:00:00Z"
            key = eccodes.codes_get(h, "shortName"), eccodes.codes_get(h, "level"), time, eccodes.codes_get(h, "number")
            fields[key] = eccodes.codes_get_values(h).astype(np.float32).astype(np.float64).reshape(61, 120)
            eccodes.codes_release(h)

lat = np.deg2rad(np.linspace(90, -90, 61))
w = np.repeat(np.maximum(np.cos(lat), np.deg2rad(3) / 8)[:, None], 120, axis=1)
w /= w.sum()


def members(v, level, time, count):
    return np.stack([fields[v, level, time, m] for m in range(count)])


def summary(x):
    return {"mean": (w * x).sum(), "rms": np.sqrt((w * x * x).sum()), "max": x.max(), "marks": [x[at] for at in MARKS]}


spread = []
for v in ("t", "z"):
    for level in (850, 500):
        for time in TIMES:
            m = members(v, level, time, 10)
            spread.append({"variable": v, "level_hPa": level, "time": time, "mean": summary(m.mean(axis=0)), "spread": summary(m.std(axis=0, ddof=1))})

features = []
for kind in ("spread", "first"):
    for v in ("t", "z"):
        for level in (850, 500):
            if kind == "spread":
                of = lambda time: members(v, level, time, 5).std(axis=0, ddof=0)
                centre, scale = 0.0, np.sqrt(np.mean([(w * of(t) ** 2).sum() for t in TIMES[:2]]))
            else:
                of = lambda time: fields[v, level, time, 0]
                centre = np.mean([(w * of(t)).sum() for t in TIMES[:2]])
                scale = np.sqrt(np.mean([(w * (of(t) - centre) ** 2).sum() for t in TIMES[:2]]))
            features.append({"channel": f"{kind}({v}) at 0h", "level_hPa": level, **summary((of(TIMES[2]) - centre) / scale)})


def short(x):
    if isinstance(x, dict):
        return {k: short(v) for k, v in x.items()}
    if isinstance(x, list):
        return [short(v) for v in x]
    return float(f"{x:.9g}") if isinstance(x, float) else x


def rows(items):
    return "[\n  " + ",\n  ".join(json.dumps(short(i)) for i in items) + "\n ]"


print('{"about": "written by make_expected.py: NumPy %s, ecCodes %s",\n "marks": %s,\n "spread": %s,\n "features": %s}'
      % (np.__version__, eccodes.codes_get_api_version(), json.dumps(MARKS), rows(spread), rows(features)))
