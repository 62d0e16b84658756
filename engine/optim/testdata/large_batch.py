#!/usr/bin/env python3
"""Writes large_batch.json: LARS and LAMB by the formulas of their papers.

    python3 large_batch.py > large_batch.json

You et al. 2017, arXiv:1708.03888 (LARS) and You et al. 2020, arXiv:1904.00962
(LAMB), in float64 with numpy. A filter, its bias, and a second filter that starts
at zero and whose gradient is zero at step 5; gradients follow a formula that the Go
test repeats, so the file holds results only. Vectors have the ratio 1 and no decay.
"""
import json
import sys

import numpy as np

STEPS = 20
SHAPES = [(2, 3), (3,), (2, 2)]


def start():
    w = [0.5 * np.sin(1 + np.arange(6)), 0.1 * np.cos(2 + np.arange(3)), np.zeros(4)]
    return [np.float32(x).astype(np.float64).reshape(s) for x, s in zip(w, SHAPES)]


def grads(step):
    out = []
    for k, s in enumerate(SHAPES):
        i = np.arange(np.prod(s))
        g = np.sin(0.7 * step + 1.3 * i + 0.5 * k) * (1 + 0.1 * i)
        if k == 2 and step == 5:
            g = 0 * g
        out.append(np.float32(g).astype(np.float64).reshape(s))
    return out


def norm(x):
    return np.sqrt((x * x).sum())


def lars(gamma, mu, eta, decay):
    w = start()
    v = [0 * x for x in w]
    out = []
    for step in range(STEPS):
        for k, g in enumerate(grads(step)):
            wd, ratio = decay, 1.0
            if w[k].ndim == 1 or norm(w[k]) == 0 or norm(g) == 0:
                wd = 0.0
            else:
                ratio = eta * norm(w[k]) / (norm(g) + wd * norm(w[k]))
            v[k] = mu * v[k] + gamma * ratio * (g + wd * w[k])
            w[k] = w[k] - v[k]
        out.append(np.concatenate([x.ravel() for x in w]).tolist())
    return out


def lamb(gamma, b1, b2, eps, decay):
    w = start()
    m, s = [0 * x for x in w], [0 * x for x in w]
    out = []
    for step in range(STEPS):
        for k, g in enumerate(grads(step)):
            vector = w[k].ndim == 1
            m[k] = b1 * m[k] + (1 - b1) * g
            s[k] = b2 * s[k] + (1 - b2) * g * g
            r = m[k] / (1 - b1 ** (step + 1)) / (np.sqrt(s[k] / (1 - b2 ** (step + 1))) + eps)
            u = r if vector else r + decay * w[k]
            ratio = 1.0
            if not vector and norm(w[k]) > 0 and norm(u) > 0:
                ratio = norm(w[k]) / norm(u)
            w[k] = w[k] - gamma * ratio * u
        out.append(np.concatenate([x.ravel() for x in w]).tolist())
    return out


doc = {
    "lars": lars(0.5, 0.9, 0.02, 0.1),
    "lamb": lamb(0.01, 0.9, 0.999, 1e-6, 0.1),
}
json.dump(doc, sys.stdout, indent=1)
sys.stdout.write("\n")
