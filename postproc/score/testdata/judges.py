"""Makes judges.json: scores of small random cases by other people's programs.

Command: python judges.py > judges.json
(scoringrules 0.10.0, xskillscore 0.0.29, properscoring 0.1,
earthkit-meteo 1.2.1, scipy 1.17.1, statsmodels not needed)

Cases: x [member][point], y and w [point]; mean and spread (divisor M-1) of a second,
normal system; thresholds; climate [21][point], ascending.
"""
import json
import warnings

import numpy as np
import properscoring as ps
import scoringrules as sr
import xarray as xr
import xskillscore as xs
from earthkit.meteo.extreme import efi, sot
from scipy import stats

warnings.filterwarnings("ignore")
g = np.random.default_rng(7)
M, N = 8, 60
truth = g.normal(size=N)
x = np.round(truth + 0.4 + g.normal(size=(M, N)) * 1.3, 2).astype(np.float32).astype(float)
y = np.round(truth + g.normal(size=N), 2).astype(np.float32).astype(float)
y[3] = x[2, 3]  # ties
w = np.round(0.2 + g.random(N), 3)
mean, spread = (v.astype(np.float32).astype(float) for v in (0.8 * truth, 0.5 + g.random(N)))
thresholds = [-0.51, 0.3299999, 1.27]  # some values are 0.33: above the second threshold in every precision
climate = np.sort(np.round(g.normal(size=(21, N)) * 1.4, 2), axis=0)
w1 = w / w.sum()

cases = dict(members=x.tolist(), obs=y.tolist(), weights=w.tolist(), mean=mean.tolist(), spread=spread.tolist(),
             thresholds=thresholds, climate=climate.tolist())
want = {}  # id -> {system: value or list by threshold}


def add(id, system, v):
    want.setdefault(id, {})[system] = v if isinstance(v, list) else float(v)


def both(v, other, tol=1e-9):
    """v, if another program agrees."""
    assert np.allclose(v, other, atol=tol), (v, other)
    return v


m, s = x.mean(0), x.std(0, ddof=1)
xl = x.T
add("crps_plain", "raw", w1 @ both(sr.crps_ensemble(y, xl, estimator="nrg"), ps.crps_ensemble(y, xl)))
add("crps_fair", "raw", w1 @ sr.crps_ensemble(y, xl, estimator="fair"))
add("crps_gauss", "raw", w1 @ sr.crps_normal(y, m, s))
add("crps_gauss", "net", w1 @ both(sr.crps_normal(y, mean, spread), ps.crps_gaussian(y, mean, spread)))
add("log_gauss", "net", w1 @ sr.logs_normal(y, mean, spread))
add("crps_above", "raw", [float(w1 @ sr.twcrps_ensemble(y, xl, a=t, estimator="nrg")) for t in thresholds])
add("interval_score_90", "net", w1 @ sr.interval_score(y, stats.norm.ppf(0.05, mean, spread), stats.norm.ppf(0.95, mean, spread), 0.1))
add("interval_score_90", "raw", w1 @ sr.interval_score(y, *np.quantile(x, [0.05, 0.95], axis=0), 0.1))
for p in (50, 90):
    low, high = np.quantile(x, [(1 - p / 100) / 2, (1 + p / 100) / 2], axis=0)
    add(f"coverage_{p}", "raw", w1 @ ((low <= y) & (y <= high)))
add("mae", "raw", w1 @ abs(np.median(x, 0) - y))

o = xr.DataArray(y, dims="p")
f = xr.DataArray(x, dims=("member", "p"))
ww = xr.DataArray(w, dims="p")
add("rmse", "raw", xs.rmse(o, f.mean("member"), dim="p", weights=ww))
add("bias", "raw", xs.me(f.mean("member"), o, dim="p", weights=ww))
add("correlation", "net", xs.pearson_r(xr.DataArray(mean, dims="p"), o, dim="p", weights=ww))
brier, fair = [], []
for t in thresholds:
    brier.append(float(xs.brier_score(o > t, (f > t).mean("member"), dim="p", weights=ww)))
    fair.append(float(xs.brier_score(o > t, f > t, member_dim="member", fair=True, dim="p", weights=ww)))
add("brier", "raw", brier)
add("brier_fair", "raw", fair)
edges = xr.DataArray(thresholds, dims="category_edge")
add("rps", "raw", xs.rps(o, f, category_edges=np.array(thresholds), dim="p", weights=ww))
add("rps_fair", "raw", xs.rps(o, f, category_edges=np.array(thresholds), dim="p", weights=ww, fair=True))

# Hersbach 2000, table 1, case by case.
xs_ = np.sort(x, 0)
al, be = np.zeros(M + 1), np.zeros(M + 1)
first = last = 0.0
for k in range(N):
    for i in range(M + 1):
        lo = xs_[i - 1, k] if i > 0 else None
        hi = xs_[i, k] if i < M else None
        if lo is not None and hi is not None:
            if y[k] > hi:
                al[i] += w1[k] * (hi - lo)
            elif y[k] > lo:
                al[i] += w1[k] * (y[k] - lo)
                be[i] += w1[k] * (hi - y[k])
            else:
                be[i] += w1[k] * (hi - lo)
        elif lo is None and y[k] < hi:
            be[0] += w1[k] * (hi - y[k])
            first += w1[k]
        elif hi is None and y[k] > lo:
            al[M] += w1[k] * (y[k] - lo)
            last += w1[k]
gb, ob = np.zeros(M + 1), np.zeros(M + 1)
gb[0], ob[0] = be[0] / first, first
gb[M], ob[M] = al[M] / last, 1 - last
gb[1:M], ob[1:M] = (al + be)[1:M], be[1:M] / (al + be)[1:M]
pb = np.arange(M + 1) / M
add("crps_reliability", "raw", (gb * (ob - pb) ** 2).sum())
add("crps_potential", "raw", (gb * ob * (1 - ob)).sum())

# One case a point, equal weights, from here on.
area, rel, res = [], [], []
for t in thresholds:
    probability, event = (x > t).mean(0), y > t
    u = stats.mannwhitneyu(probability[event], probability[~event]).statistic
    area.append(float(u / (event.sum() * (~event).sum())))
    a = b = 0.0
    for p in np.unique(probability):
        k = probability == p
        a += k.sum() * (p - event[k].mean()) ** 2 / N
        b += k.sum() * (event.mean() - event[k].mean()) ** 2 / N
    rel.append(float(a)), res.append(float(b))
equal = {"roc_area": area, "brier_reliability": rel, "brier_resolution": res}
ranks = xs.rank_histogram(o + 1e-9, f, dim="p", member_dim="member").values
equal["ranks"] = ranks.tolist()

# Vectors: the points are dimensions of one case.
sq = np.sqrt(N)
vectors = {
    "energy": float(sr.es_ensemble(y, x, m_axis=0, v_axis=1, estimator="nrg")) / sq,
    "energy_fair": float(sr.es_ensemble(y, x, m_axis=0, v_axis=1, estimator="fair")) / sq,
    "variogram": float(sr.vs_ensemble(y, x, p=0.5, m_axis=0, v_axis=1, estimator="nrg")),
}

# earthkit's index is exact for the step of the ensemble at the climate's quantiles.
index = efi(climate, x)
tails = {"upper": sot(climate99 := np.quantile(climate, np.linspace(0, 1, 101), axis=0), x, 90).tolist(),
         "lower": sot(climate99, x, 10).tolist(), "climate": climate99[[1, 10, 90, 99]].tolist()}

print(json.dumps(dict(cases=cases, want=want, equal=equal, vectors=vectors, efi=index.tolist(), sot=tails), allow_nan=False))
