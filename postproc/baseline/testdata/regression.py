"""Makes regression.json: coefficients of least mean CRPS by SciPy, the score by quadrature.

Nothing here is shared with the program: distribution functions are SciPy's, the CRPS is
the integral of (F - 1[x >= y])^2 by Gauss-Legendre, the minimiser Nelder-Mead, started
again until it stays.

Command: python regression.py > regression.json   (NumPy, SciPy 1.17.1; half a minute)
"""
import json

import numpy as np
from scipy.optimize import minimize
from scipy.stats import logistic, norm

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
CASES = 60


def cdf(family, mu, sigma, x):
    parent = logistic if family.endswith("logistic") else norm
    z, cut = (x - mu) / sigma, -mu / sigma
    if family.startswith("truncated"):
        return 1 - parent.sf(z) / parent.sf(cut)
    return parent.cdf(z)


def integral(f, lo, hi):
    half = (hi - lo) / 2
    x = lo[:, None] + half[:, None] * (NODES + 1)
    return half * (f(x) ** 2 @ WEIGHTS)


def crps(family, mu, sigma, y):
    lo = np.zeros_like(mu) if "_" in family else np.minimum(mu, y) - 40 * sigma
    hi = np.maximum(np.maximum(mu, 0), y) + 40 * sigma
    m, s = mu[:, None], sigma[:, None]
    # The bulk is narrow in so long a range: cut it at the centre, too.
    total = 0
    edges = np.sort(np.stack([lo, y, hi] + [np.clip(mu + k * sigma, lo, hi) for k in (-8, -2, 2, 8)]), axis=0)
    for a, b in zip(edges[:-1], edges[1:]):
        above = ((a + b) / 2 >= y)[:, None]
        total = total + integral(lambda x: cdf(family, m, s, x) - above, a, b)
    return total


def scale(link, c, d, sd):
    if link == "linear":
        return c + d * sd
    if link == "quadratic":
        return np.sqrt(c + d * sd**2)
    return np.exp(c + d * np.log(sd))


def fit(family, link, mean, sd, y):
    def value(p):
        c, d = (p[2], p[3]) if link == "log" else (abs(p[2]) + 1e-9, abs(p[3]))
        return np.mean(crps(family, p[0] + p[1] * mean, scale(link, c, d, sd), y))

    x, best = np.array([0.0, 1.0, 0.3, 0.5]), np.inf
    for _ in range(12):
        r = minimize(value, x, method="Nelder-Mead", options=dict(xatol=1e-8, fatol=1e-13, maxiter=2000, maxfev=4000))
        x = r.x
        if best - r.fun < 1e-12:
            break
        best = r.fun
    p = list(x[:2]) + (list(x[2:]) if link == "log" else list(np.abs(x[2:])))
    return p, r.fun


rng = np.random.default_rng(1)
rows = []
for family in ["normal", "logistic", "truncated_normal", "truncated_logistic", "censored_normal", "censored_logistic"]:
    for link in ["linear", "quadratic", "log"]:
        mean = np.float32(2 + 1.5 * rng.normal(size=CASES))
        sd = np.float32(0.4 + rng.uniform(size=CASES))
        y = 0.4 + 0.8 * mean + (0.4 + 0.7 * sd) * rng.normal(size=CASES)
        y = np.float32(np.abs(y) if family.startswith("truncated") else np.maximum(y, 0) if "_" in family else y)
        p, f = fit(family, link, np.float64(mean), np.float64(sd), np.float64(y))
        rows.append(dict(family=family, link=link, mean=mean.tolist(), std=sd.tolist(), obs=y.tolist(), coefficients=p, crps=f))
print(json.dumps(rows))
