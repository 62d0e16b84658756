"""Maps of Local Area-wise Standardization that judge package ensemble: NumPy, and SciPy's Gaussian filter.

Run: python las.py (numpy 2.4.6, scipy 1.17.1); the numbers stand in TestLASOracle.
"""
import numpy as np
from scipy.ndimage import gaussian_filter1d

NY, NX, WINDOW = 5, 6, 3
x = np.array([[[(7 * y + 3 * d + 5 * i + 2 * j + i * j) % 11 for j in range(NX)] for i in range(NY)]
              for y in range(2) for d in range(3)], float)
mean, scale = np.zeros((NY, NX)), np.zeros((NY, NX))
for i in range(NY):
    low = min(max(i - WINDOW // 2, 0), NY - WINDOW)
    for j in range(NX):
        v = x[:, low:low + WINDOW][:, :, [(j - WINDOW // 2 + k) % NX for k in range(WINDOW)]]
        mean[i, j], scale[i, j] = v.mean(), v.std()
for name, field in ("M", mean), ("S", scale):
    field = gaussian_filter1d(gaussian_filter1d(field, 1, axis=1, mode="wrap"), 1, axis=0, mode="nearest")
    for at in (0, 0), (2, 3), (4, 5):
        print(f"{name}{at} {field[at]:.10f}")
