"""Planes resized by PyTorch, for TestTemplatesAreEnlargedAsImages: python resize.py > resize.json"""

import json

import torch

torch.manual_seed(0)
cases = []
for source, to in [((4, 5), (7, 9)), ((1, 3), (6, 8)), ((3, 7), (3, 20)), ((5, 2), (11, 2))]:
    x = torch.randn(1, 1, *source, dtype=torch.float64)
    y = torch.nn.functional.interpolate(x, size=to, mode="bilinear", align_corners=False)
    cases.append({"From": source, "To": to, "X": x.flatten().tolist(), "Y": y.flatten().tolist()})
print(json.dumps(cases))
