#!/usr/bin/env python3
"""CRPS, mean and standard deviation, and quantiles of ensembles on a half-degree globe:
postproc/simd beside NumPy, scoringrules, properscoring and xskillscore, one core.

needs: numpy scoringrules numba properscoring xskillscore
usage: go test -c -o /tmp/simd.test ./postproc/simd
       taskset -c 0 python benchmarks/members.py /tmp/simd.test --rounds 7

Programs take turns; printed are medians over the rounds (the smallest in brackets, which
is what a machine with other work on it allows) and ratios to the fastest peer.
"""
import argparse
import os

for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOMAXPROCS"):
    os.environ[name] = "1"

import re
import statistics
import subprocess
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")
NY, NX = 361, 720
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def crps_sorted(x, y):
    """The fair CRPS from sorted members, member first."""
    m = x.shape[0]
    s = np.sort(x, 0)
    w = (2 * np.arange(1, m + 1) - m - 1).astype(x.dtype)
    return np.abs(x - y).mean(0) - np.tensordot(w, s, (0, 0)) / (m * (m - 1))


def peers(m):
    g = np.random.default_rng(m)
    y = g.standard_normal((NY, NX)).astype(np.float32) * 2 + 280
    x = (y + g.standard_normal((m, NY, NX)) * 1.5).astype(np.float32)
    last = np.ascontiguousarray(np.moveaxis(x, 0, -1))
    out = {
        ("crps", "numpy, sorted, member first"): lambda: crps_sorted(x, y),
        ("mean_std", "numpy, member first"): lambda: (x.mean(0), x.std(0, ddof=1)),
        ("mean_std", "numpy, member last"): lambda: (last.mean(-1), last.std(-1, ddof=1)),
        ("quantiles", "numpy, member first"): lambda: np.quantile(x, LEVELS, axis=0),
        ("quantiles", "numpy, member last"): lambda: np.quantile(last, LEVELS, axis=-1),
    }
    try:
        import scoringrules as sr
        for form in ("qd", "pwm", "nrg", "fair"):
            if m < 20 or form in ("qd", "pwm"):
                out["crps", f"scoringrules, numba, {form}"] = lambda form=form: sr.crps_ensemble(y, last, m_axis=-1, estimator=form, backend="numba")
    except ImportError:
        print("scoringrules is not installed: left out")
    try:
        import properscoring as ps
        out["crps", "properscoring"] = lambda: ps.crps_ensemble(y, last)
    except ImportError:
        print("properscoring is not installed: left out")
    try:
        import xarray as xr
        import xskillscore as xs
        o, f = xr.DataArray(y, dims=("lat", "lon")), xr.DataArray(x, dims=("member", "lat", "lon"))
        out["crps", "xskillscore"] = lambda: xs.crps_ensemble(o, f, dim=[]).values
    except ImportError:
        print("xskillscore is not installed: left out")
    return out


def ours(program, m):
    text = subprocess.run([program, "-test.run", "^$", "-test.bench", f"Members/.*/{m}$", "-test.benchtime", "20x"],
                          capture_output=True, text=True, check=True).stdout
    return {name: float(ns) / 1e6 for name, ns in re.findall(rf"BenchmarkMembers/(\w+)/{m}\S*\s+\d+\s+([\d.]+) ns/op", text)}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("program")
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--members", default="10,50")
    a = a.parse_args()
    print("| members | what | ours, ms | peer | ms | ratio of medians | of smallest |\n|---|---|---|---|---|---|---|")
    for m in map(int, a.members.split(",")):
        cases = peers(m)
        for f in cases.values():
            f()  # compiles
        times = {}
        for _ in range(a.rounds):
            for name, ms in ours(a.program, m).items():
                times.setdefault((name, ""), []).append(ms)
            for key, f in cases.items():
                t = time.perf_counter()
                f()
                times.setdefault(key, []).append(1e3 * (time.perf_counter() - t))
        shown = lambda v: f"{statistics.median(v):.2f} ({min(v):.2f})"
        for (what, peer), v in times.items():
            if peer:
                own = times[what, ""]
                print(f"| {m} | {what} | {shown(own)} | {peer} | {shown(v)} | {statistics.median(v) / statistics.median(own):.1f} | {min(v) / min(own):.1f} |")


main()
