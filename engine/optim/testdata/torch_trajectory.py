#!/usr/bin/env python3
"""Writes torch_trajectory.json: what PyTorch's optimisers and schedules do.

    python3 torch_trajectory.py > torch_trajectory.json

Two parameters, a weight of 6 and a bias of 3; gradients follow a formula that
the Go test repeats, so the file holds results only. float32, one thread.
"""
import json
import math
import sys

import torch

torch.set_num_threads(1)
STEPS = 20


def start():
    w = torch.tensor([0.5 * math.sin(1.0 + i) for i in range(6)], dtype=torch.float32)
    b = torch.tensor([0.1 * math.cos(2.0 + i) for i in range(3)], dtype=torch.float32)
    return torch.nn.Parameter(w), torch.nn.Parameter(b)


def grads(step, n, shift):
    return torch.tensor([math.sin(0.7 * step + 1.3 * i + shift) * (1 + 0.1 * i) for i in range(n)], dtype=torch.float32)


def run(make, clip=0.0):
    w, b = start()
    opt = make(w, b)
    out, norms = [], []
    for step in range(STEPS):
        w.grad, b.grad = grads(step, 6, 0.0), grads(step, 3, 0.5)
        if clip:
            norms.append(float(torch.nn.utils.clip_grad_norm_([w, b], clip)))
        opt.step()
        out.append([float(x) for x in torch.cat([w.detach(), b.detach()])])
    return {"path": out, "norms": norms}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = start()


def averaged(decay):
    """The path of the running average beside AdamW, with a decay that grows."""
    net = Net()
    opt = torch.optim.AdamW([net.w, net.b], lr=0.01, weight_decay=0.05)
    mean = torch.optim.swa_utils.AveragedModel(net, avg_fn=lambda mean, w, n: mean + (1 - min(decay, (1 + float(n)) / (10 + float(n)))) * (w - mean))
    out = []
    for step in range(STEPS):
        net.w.grad, net.b.grad = grads(step, 6, 0.0), grads(step, 3, 0.5)
        opt.step()
        mean.update_parameters(net)
        out.append([float(x) for x in torch.cat([mean.module.w.detach(), mean.module.b.detach()])])
    return {"path": out, "norms": []}


def split(w, b, decay):
    return [{"params": [w], "weight_decay": decay}, {"params": [b], "weight_decay": 0.0}]


def schedule(make, max_steps, base=0.01):
    p = torch.nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD([p], lr=base)
    s = make(opt)
    out = []
    for _ in range(max_steps):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        s.step()
    return out


def plateau(values):
    p = torch.nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD([p], lr=0.1)
    s = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=2, threshold=1e-3, cooldown=1, min_lr=0.02)
    out = []
    for v in values:
        s.step(v)
        out.append(opt.param_groups[0]["lr"])
    return out


VALUES = [1.0, 0.9, 0.8995, 0.8994, 0.8993, 0.8992, 0.8991, 0.899, 0.8, 0.81, 0.82, 0.83, 0.84, 0.85, 0.86, 0.87, 0.88, 0.89]

doc = {
    "torch": torch.__version__,
    "sgd": run(lambda w, b: torch.optim.SGD([w, b], lr=0.05, momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": run(lambda w, b: torch.optim.SGD([w, b], lr=0.05, momentum=0.9, nesterov=True)),
    "adam": run(lambda w, b: torch.optim.Adam([w, b], lr=0.01, weight_decay=0.01)),
    "adamw": run(lambda w, b: torch.optim.AdamW(split(w, b, 0.05), lr=0.01)),
    "adamw_clip": run(lambda w, b: torch.optim.AdamW(split(w, b, 0.05), lr=0.01, betas=(0.8, 0.95), eps=1e-6), clip=0.7),
    "ema": averaged(0.9),
    "cosine": schedule(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=12, eta_min=0.001), 13),
    "plateau_values": VALUES,
    "plateau": plateau(VALUES),
}
json.dump(doc, sys.stdout, indent=1)
sys.stdout.write("\n")
