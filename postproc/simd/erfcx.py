"""Makes erfcx.inc.h: the scaled complementary error function for x >= 0 as a polynomial.

    (1+2x) exp(x^2) erfc(x) = sum_k c_k t^k,  t = (x-3.75)/(x+3.75)

Command: python erfcx.py > erfcx.inc.h   (NumPy, SciPy 1.17.1)
Source of the form: Shepherd and Laframboise 1981, doi:10.1090/S0025-5718-1981-0595058-X.
"""
import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erfcx

K, DEGREE = 3.75, 20


def g(t):
    x = K * (1 + t) / np.maximum(1 - t, 1e-300)
    # towards t = 1, where x has no bound, (1+2x) erfcx(x) tends to 2/sqrt(pi)
    return np.where(x < 1e8, (1 + 2 * np.minimum(x, 1e8)) * erfcx(np.minimum(x, 1e8)), 2 / np.sqrt(np.pi))


c = chebyshev.cheb2poly(chebyshev.chebinterpolate(g, DEGREE))
t = np.linspace(-1, 1, 100001)
worst = np.max(np.abs(np.polynomial.polynomial.polyval(t, c) / g(t) - 1))
assert worst < 5e-15, worst
print("// Made by erfcx.py; see there. c_0 to c_%d, relative error %.0e." % (DEGREE, worst))
print("enum { ERFCX_DEGREE = %d };" % DEGREE)
print("static const double erfcx_c[ERFCX_DEGREE + 1] = {%s};" % ", ".join(float(v).hex() for v in c))
print("static const double erfcx_k = %r;" % K)
