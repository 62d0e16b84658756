"""Makes truncnormal.json: CRPS of the normal truncated below at 0, by scoringrules
and by quadrature with mpmath (50 digits); gradients by mpmath differentiation.

Command: python truncnormal.py > truncnormal.json
(scoringrules 0.10.0, mpmath 1.3.0)
"""
import json

import mpmath as mp
import scoringrules as sr

mp.mp.dps = 50


def crps(mu, sigma, y):
    mu, sigma, y = mp.mpf(mu), mp.mpf(sigma), mp.mpf(y)
    tail = lambda x: mp.erfc(x / mp.sqrt(2)) / 2
    l, v = -mu / sigma, max(y, mp.mpf(0))
    z, p = (v - mu) / sigma, tail(-mu / sigma)
    g = z * (1 - 2 * tail(z) / p) + 2 * mp.npdf(z) / p - tail(mp.sqrt(2) * l) / (mp.sqrt(mp.pi) * p**2)
    return sigma * g + max(-y, mp.mpf(0))


def quadrature(mu, sigma, y):
    tail = lambda x: mp.erfc(x / mp.sqrt(2)) / 2
    p = tail(-mp.mpf(mu) / sigma)
    cdf = lambda x: 1 - tail((x - mu) / mp.mpf(sigma)) / p
    hi = max(y, mu, 0) + 30 * sigma
    v = max(y, 0)
    low = mp.quad(lambda x: cdf(x) ** 2, mp.linspace(0, v, 9)) if v > 0 else mp.mpf(0)
    return low + mp.quad(lambda x: (1 - cdf(x)) ** 2, mp.linspace(v, hi, 33)) + max(-y, 0)


rows = []
for mu, sigma, y in [
    (2, 1, 1.5), (0.3, 1, 0), (-1, 2, 3), (5, 0.5, 4.2), (-4, 1.5, 0.2), (12.5, 3.1, 22.0), (0.7, 0.9, -0.5),
    (-15, 1, 0.05), (-30, 1, 0.02), (-120, 1.0, 0.01), (3, 1e-3, 2.5), (0, 1, 1),
]:
    mp.mp.dps = 50
    c = crps(mu, sigma, y)
    if mu / sigma > -100 and sigma > 0.01:
        assert abs(quadrature(mu, sigma, y) - c) < 1e-10, (mu, sigma, y)
    if mu / sigma > -8:
        s = float(sr.crps_gtcnormal(float(y), float(mu), float(sigma), lower=0.0))
        assert abs(s - c) < 1e-7 * max(1, abs(s)), (mu, sigma, y, s, c)
    dmu = mp.diff(lambda a: crps(a, sigma, y), mu)
    dsigma = mp.diff(lambda a: crps(mu, a, y), sigma)
    rows.append({"mu": mu, "sigma": sigma, "y": y, "crps": float(c), "dmu": float(dmu), "dsigma": float(dsigma)})
print(json.dumps(rows, indent=1))
