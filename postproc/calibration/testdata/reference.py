"""Fits that judge package calibration: scikit-learn's isotonic regression, and a reliability table in numpy.

Run: python reference.py > reference.json (scikit-learn 1.5.2, numpy 2.4.6).
"""
import json

import numpy as np
from sklearn.isotonic import IsotonicRegression

rng = np.random.default_rng(11)
cases = []
for n, digits in ((7, 3), (60, 2), (3000, 6)):
    p = np.round(rng.beta(0.6, 0.9, n), digits)
    y = (rng.random(n) < np.clip(p**1.6 + 0.05, 0, 1)).astype(float)
    w = np.round(0.2 + rng.random(n), 3)
    fit = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y, sample_weight=w)
    at = np.round(np.linspace(0, 1, 41), 3)
    # Reliability table: bins of tenths, those of few cases join the next above.
    edge = np.where(p <= 0, 0, np.where(p >= 1, 11, 1 + np.minimum((p * 10).astype(int), 9)))
    groups, pending = [], []
    for b in range(12):
        pending += list(np.flatnonzero(edge == b))
        if len(pending) >= 200:
            groups.append(pending)
            pending = []
    if pending and groups:
        groups[-1] = groups[-1] + pending
    elif pending:
        groups = [pending]
    x = [np.average(p[g], weights=w[g]) for g in groups]
    f = [np.average(y[g], weights=w[g]) for g in groups]
    v = [w[g].sum() for g in groups]
    f = IsotonicRegression().fit(x, f, sample_weight=v).predict(x)
    if x[0] > 0:
        x, f = [0, *x], [0, *f]
    if x[-1] < 1:
        x, f = [*x, 1], [*f, 1]
    cases.append({
        "p": p.tolist(), "y": y.tolist(), "w": w.tolist(), "at": at.tolist(),
        "isotonic": fit.predict(at).tolist(), "reliability": np.interp(at, x, f).tolist(),
    })
print(json.dumps(cases, separators=(",", ":")))
