"""Losses of Bernstein quantile functions and histograms with their gradients, by PyTorch.

    python heads.py > heads.json
"""
import json

import torch
from scipy.special import comb

torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
rows = []


def keep(rule, par, y, loss, censored=False):
    loss.backward()
    rows.append({"rule": rule, "censored": censored, "par": par.tolist(), "y": float(y), "loss": loss.item(), "grad": par.grad.tolist()})


levels = torch.arange(1, 100) / 100
for degree in (3, 8, 12):
    basis = torch.stack([comb(degree, j) * levels**j * (1 - levels) ** (degree - j) for j in range(degree + 1)], 1)
    for _ in range(4):
        for censored in (False, True):
            par = torch.sort(torch.randn(degree + 1) * 2).values.requires_grad_()
            y = torch.randn(()) * 2
            q = basis @ par
            if censored:
                q, y = torch.relu(q), torch.relu(y)
            d = y - q
            keep("pinball", par, y, 2 * torch.maximum(levels * d, (levels - 1) * d).mean(), censored)
for bins in (4, 20):
    for _ in range(4):
        par = (torch.randn(bins) * 3).requires_grad_()
        y = torch.randint(bins, ())
        keep("cross_entropy", par, y, torch.nn.functional.cross_entropy(par[None], y[None]))
print("[" + ",\n".join(json.dumps(r) for r in rows) + "]")
