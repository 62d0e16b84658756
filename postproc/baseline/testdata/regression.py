"""Makes regression.json: coefficients of least mean CRPS by SciPy, the score by quadrature.

Nothing here is shared with the program: distribution functions are SciPy's, the CRPS is
the integral of (F - 1[x >= y])^2 by Gauss-Legendre, the minimiser Nelder-Mead, started
again until it stays.

Command: python regression.py > regression.json   (NumPy, SciPy 1.17.1; half a minute)
"""
import json

import numpy as np
from scipy.optimize import minimize
from scipy.stats import gamma, logistic, norm

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
CASES = 60


def cdf(family, mu, sigma, x, shift=0):
    if family == "censored_shifted_gamma":  # mean and standard deviation before the shift
        return gamma.cdf(x + shift, (mu / sigma) ** 2, scale=sigma**2 / mu)
    if family == "log_normal":  # mu and sigma are its mean and standard deviation
        v = np.log1p((sigma / mu) ** 2)
        return norm.cdf((np.log(x) - np.log(mu) + v / 2) / np.sqrt(v))
    parent = logistic if family.endswith("logistic") else norm
    z, cut = (x - mu) / sigma, -mu / sigma
    if family.startswith("truncated"):
        return 1 - parent.sf(z) / parent.sf(cut)
    return parent.cdf(z)


def integral(f, lo, hi):
    half = (hi - lo) / 2
    x = lo[:, None] + half[:, None] * (NODES + 1)
    return half * (f(x) ** 2 @ WEIGHTS)


def crps(family, mu, sigma, y, shift=0):
    lo = np.zeros_like(mu) if "_" in family else np.minimum(mu, y) - 40 * sigma
    hi = np.maximum(np.maximum(mu, 0), y) + 40 * sigma
    m, s = mu[:, None], sigma[:, None]
    # The bulk is narrow in so long a range: cut it at the centre, too.
    total = 0
    edges = np.sort(np.stack([lo, y, hi] + [np.clip(mu + k * sigma, lo, hi) for k in (-8, -2, 2, 8)]), axis=0)
    for a, b in zip(edges[:-1], edges[1:]):
        above = ((a + b) / 2 >= y)[:, None]
        total = total + integral(lambda x: cdf(family, m, s, x, shift) - above, a, b)
    return total


def scale(link, c, d, sd):
    if link == "linear":
        return c + d * sd
    if link == "quadratic":
        return np.sqrt(c + d * sd**2)
    return np.exp(c + d * np.log(sd))


def gamma_coefficients(p, y):
    # the shift is at most the mean observation: else it may have no end
    return list(np.abs(p[:4]) + [1e-4, 0, 1e-8, 0]) + [np.mean(y) * p[4] ** 2 / (1 + p[4] ** 2)]


def fit(family, link, mean, sd, y):
    gammas = family == "censored_shifted_gamma"

    def value(p):
        if gammas:
            a, b, c, d, q = gamma_coefficients(p, y)
            return np.mean(crps(family, a + b * mean, np.sqrt(c + d * mean), y, q))
        c, d = (p[2], p[3]) if link == "log" else (abs(p[2]) + 1e-9, abs(p[3]))
        a, b = (abs(p[0]) + 1e-9, abs(p[1])) if family == "log_normal" else (p[0], p[1])
        return np.mean(crps(family, a + b * mean, scale(link, c, d, sd), y))

    if gammas:
        start = [0.3, 0.7, 0.5, 0.5, 0.3]
    else:
        start = [0.0 if family != "log_normal" else 0.5, 1.0, 0.3, 0.5]
    x, best = np.array(start), np.inf
    for _ in range(12):
        r = minimize(value, x, method="Nelder-Mead", options=dict(xatol=1e-8, fatol=1e-13, maxiter=2000, maxfev=4000))
        x = r.x
        if best - r.fun < 1e-12:
            break
        best = r.fun
    if gammas:
        return gamma_coefficients(x, y), r.fun
    p = list(np.abs(x[:2]) if family == "log_normal" else x[:2]) + (list(x[2:]) if link == "log" else list(np.abs(x[2:])))
    return p, r.fun


rng = np.random.default_rng(1)
rows = []
for family in ["normal", "logistic", "truncated_normal", "truncated_logistic", "censored_normal", "censored_logistic", "log_normal"]:
    for link in ["linear", "quadratic", "log"]:
        mean = np.float32(2 + 1.5 * rng.normal(size=CASES))
        if family == "log_normal":
            mean = np.abs(mean) + np.float32(0.5)
        sd = np.float32(0.4 + rng.uniform(size=CASES))
        y = 0.4 + 0.8 * mean + (0.4 + 0.7 * sd) * rng.normal(size=CASES)
        y = np.float32(np.abs(y) + 0.05 * (family == "log_normal") if family.startswith(("truncated", "log_")) else np.maximum(y, 0) if "_" in family else y)
        p, f = fit(family, link, np.float64(mean), np.float64(sd), np.float64(y))
        rows.append(dict(family=family, link=link, mean=mean.tolist(), std=sd.tolist(), obs=y.tolist(), coefficients=p, crps=f))
# Rain: half of the days are dry, and dry days were forecast as little rain.
mean = np.float32(rng.gamma(0.7, 3, size=CASES))
sd = np.float32(0.2 + 0.5 * mean)
y = np.float32(np.maximum(0, rng.gamma(0.8 * (0.5 + mean) / 2, 2) - 0.6))
p, f = fit("censored_shifted_gamma", "", np.float64(mean), np.float64(sd), np.float64(y))
rows.append(dict(family="censored_shifted_gamma", link="", mean=mean.tolist(), std=sd.tolist(), obs=y.tolist(), coefficients=p, crps=f))
print(json.dumps(rows))
