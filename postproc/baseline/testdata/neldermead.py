"""Makes neldermead.json: where SciPy's Nelder-Mead stops on the Rosenbrock function.

Command: python neldermead.py > neldermead.json   (SciPy 1.17.1)
"""
import json

from scipy.optimize import minimize, rosen

rows = []
for x0, tol, maxiter in [
    ([1.3, 0.7, 0.8, 1.9], 1e-4, 1000),
    ([0.0, 1.0, 0.0, 1.0], 1e-4, 1000),
    ([0.0, 1.0, 0.0, 1.0], 1e-4, 40),
    ([-1.2, 1.0], 1e-2, 1000),
]:
    r = minimize(rosen, x0, method="Nelder-Mead", tol=tol, options={"maxiter": maxiter})
    rows.append({"x0": x0, "tol": tol, "maxiter": maxiter, "x": list(r.x), "f": r.fun})
print(json.dumps(rows, indent=1))
