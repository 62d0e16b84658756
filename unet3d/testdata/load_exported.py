#!/usr/bin/env python3
"""Load what `ensemble model export` wrote into the PyTorch models of the published networks.

    python load_exported.py DIR

Needs torch and safetensors.  Every tensor has to be one of the model's and the other way
round, and the model has to answer golden.input with golden.output, to 1e-4 of its largest value.
"""
import json
import os
import sys

import torch
from safetensors.torch import load_file

from make_golden import ResNet2DSimple, UNet3D

folder = sys.argv[1]
with open(os.path.join(folder, "export.json")) as f:
    export = json.load(f)
net = export["network"]
for name in export["weights"]:
    tensors = load_file(os.path.join(folder, name))
    x, want = tensors.pop("golden.input"), tensors.pop("golden.output")
    if net["kind"] == "unet3d":
        model = UNet3D(net["channels"], net["base"], net["outputs"], net["stages"])
    else:
        model = ResNet2DSimple(net["channels"], net["widths"], net["reinject"])
    missing, unknown = model.load_state_dict(tensors, strict=False)
    missing = [k for k in missing if not k.endswith(".num_batches_tracked")]
    if missing or unknown:
        sys.exit(f"{name}: missing {missing}, unknown {unknown}")
    model.eval()
    with torch.no_grad():
        y = model(x)
    difference = ((y - want).abs().max() / want.abs().max()).item()
    print(f"{name}: {len(tensors)} tensors loaded, relative difference {difference:.2g}")
    if not difference < 1e-4:
        sys.exit(1)
