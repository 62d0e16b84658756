"""Makes families.json: CRPS of all families by scoringrules, or by quadrature with
scipy where scoringrules has no such form (values below 0 among them).

Command: python families.py > families.json
(scoringrules 0.10.0, scipy 1.17.1)
"""
import json

import numpy as np
import scoringrules as sr
from scipy import integrate, stats

rows = []


def add(family, par, y, crps):
    if not np.isfinite(crps):
        raise ValueError((family, par, y, crps))
    rows.append({"family": family, "par": par, "y": y, "crps": float(crps)})


def quadrature(cdf, y):
    """The integral of (F - 1[x >= y])^2 for F = 0 below 0."""
    v = max(y, 0.0)
    low = integrate.quad(lambda x: cdf(x) ** 2, 0, v, epsabs=1e-11, limit=400)[0]
    high = integrate.quad(lambda x: (1 - cdf(x)) ** 2, v, v + 5, epsabs=1e-11, limit=400)[0]
    high += integrate.quad(lambda x: (1 - cdf(x)) ** 2, v + 5, np.inf, epsabs=1e-11, limit=400)[0]
    return low + high + max(-y, 0.0)


ys = [-0.6, 0.0, 0.3, 1.7, 6.0]
for y in ys:
    for m, s in [(0.3, 0.8), (-2.0, 3.0), (4.0, 1.1)]:
        add("normal", [m, s], y, sr.crps_normal(y, m, s))
        add("logistic", [m, s], y, sr.crps_logistic(y, m, s))
        add("truncated_normal", [m, s], y, sr.crps_tnormal(y, m, s, lower=0.0))
        add("censored_normal", [m, s], y, sr.crps_cnormal(y, m, s, lower=0.0))
        below = stats.logistic.cdf(0, m, s)
        for family, judge, cdf in [
            ("truncated_logistic", sr.crps_tlogistic, lambda x: (stats.logistic.cdf(x, m, s) - below) / (1 - below)),
            ("censored_logistic", sr.crps_clogistic, lambda x: stats.logistic.cdf(x, m, s)),
        ]:
            # an infinite upper bound gives nan there
            c = judge(y, m, s, lower=0.0, upper=500.0) if y >= 0 else quadrature(cdf, y)
            assert abs(c - quadrature(cdf, y)) < 1e-6
            add(family, [m, s], y, c)
    for p, m, s in [(0.3, 1.0, 2.0), (0.6, -1.0, 3.0)]:
        add("zero_normal", [p, m, s], y, sr.crps_gtcnormal(y, m, s, lower=0.0, lmass=p))
    for m, s in [(0.2, 0.5), (-1.0, 1.2)]:
        if y > 0:
            add("log_normal", [m, s], y, sr.crps_lognormal(y, m, s))
        else:
            add("log_normal", [m, s], y, quadrature(lambda x: stats.lognorm.cdf(x, s, scale=np.exp(m)), y))
    for m, s, n in [(0.3, 0.8, 9.0), (-2.0, 3.0, 12.5), (4.0, 1.1, 2.5)]:
        add("student", [m, s, n], y, sr.crps_t(y, n, m, s))
    for k, t, d in [(0.6, 2.0, 0.4), (3.0, 0.8, 0.1), (12.0, 0.3, 1.5)]:
        c = quadrature(lambda x: stats.gamma.cdf(x + d, k, scale=t), y)
        if y >= 0:
            s = float(sr.crps_csg0(y, shape=k, scale=t, shift=d))
            assert abs(s - c) < 1e-6, (k, t, d, y, s, c)
        add("censored_shifted_gamma", [k, t, d], y, c)
print("[\n " + ",\n ".join(json.dumps(r, allow_nan=False) for r in rows) + "\n]")
