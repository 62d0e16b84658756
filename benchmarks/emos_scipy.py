#!/usr/bin/env python3
"""EMOS by point with SciPy: N(a + b m, (c + d s)^2) of least mean CRPS, c > 0, d >= 0, one point after the other, by
L-BFGS-B with the analytic gradient, from least squares. emos_test.go calls it.

    emos_scipy.py DATA POINTS DATES FIRST OUT

DATA holds mean, spread and observation, [field][date][point] as float32. The first FIRST points are fitted; OUT receives
a, b, c, d of each as float64. Prints the seconds of all fits.
"""
import sys
import time

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr


def score(theta, m, s, y):
    """Mean CRPS with its gradient."""
    a, b, c, d = theta
    sigma = c + d * s
    z = (y - a - b * m) / sigma
    cdf, pdf = ndtr(z), np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    dmu, dsigma = 1 - 2 * cdf, 2 * pdf - 1 / np.sqrt(np.pi)
    n = len(y)
    return (sigma * (z * -dmu + dsigma)).mean(), np.array([dmu.mean(), dmu @ m / n, dsigma.mean(), dsigma @ s / n])


def fit(m, s, y):
    """The coefficients, fitted to anomalies of m and y, so that a and b are nearly independent."""
    centre, level = m.mean(), y.mean()
    m, y = m - centre, y - level
    b = m @ y / (m @ m)
    residual = (y - b * m).std()
    start = [0, b, 0.5 * residual, 0.5 * residual / s.mean()]
    least = 1e-3 * residual
    r = minimize(score, start, args=(m, s, y), jac=True, method="L-BFGS-B", bounds=[(None, None), (None, None), (least, None), (0, None)],
                 options=dict(ftol=1e-14, gtol=1e-7, maxiter=500))
    a, b, c, d = r.x
    return level + a - b * centre, b, c, d


def main():
    path, points, dates, first, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    data = np.fromfile(path, "<f4").reshape(3, dates, points)[:, :, :first].astype("f8").transpose(0, 2, 1).copy()
    fit(*data[:, 0])
    begin = time.perf_counter()
    theta = [fit(*data[:, p]) for p in range(first)]
    print(time.perf_counter() - begin)
    np.array(theta).tofile(out)


main()
