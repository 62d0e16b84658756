"""One network with its maps and links: outputs in units of the error scale.

Formulas: docs/formats/network.md of the program, section From output to forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .bodies import Body
from .families import Family, Parts, soft_floor, softplus

# Networks without maps, whose shift and sigma are in units of the members' spread.
_BASELINES = frozenset({"drn", "lenet", "unet2d"})
# Networks that predict one spread field.
_SINGLE_FIELD = frozenset({"resnet2d_simple"})
_LEAST_SPREAD = 0.01
_MAPS = "maps."


class Calibrated(nn.Module):
    """A network (`body`) with its local maps and the links of its outputs.

    forward gives a dict of [N V D Y X] in units of the error scale: "spread", and for a distribution "shift", "sigma" and
    "parameters" [parameter N V D Y X], locations relative to the members' mean. What the network does not predict is not
    in it.
    """

    def __init__(
        self,
        body: Body,
        maps: Mapping[str, Tensor],
        task: Mapping[str, Any],
        targets: tuple[int, int],
        *,
        spread_only: bool,
        family: Family | None,
    ) -> None:
        super().__init__()
        self.body, self.spread_only, self.family = body, spread_only, family
        self.maps = nn.ParameterDict({name.removeprefix(_MAPS): nn.Parameter(x) for name, x in maps.items()})

        def constant(values: Any) -> Tensor:
            return torch.tensor(values, dtype=torch.float64).reshape(1, *targets, 1, 1).float()

        e = torch.tensor(task["error_scale"], dtype=torch.float64)
        affine = torch.tensor(task["spread_affine"], dtype=torch.float64)
        self.register_buffer("offset", constant((affine[:, 0] / e).tolist()))
        self.register_buffer("slope", constant(affine[:, 1].tolist()))
        self.register_buffer("scale", constant((torch.tensor(task["spread_scale"], dtype=torch.float64) / e).tolist()))
        edges = task.get("histogram_edges")
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float32).reshape(*targets, -1) if edges else None)

    def forward(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        u = self.body(self._features(inputs))
        scale = self.get_buffer("scale")
        if self.body.kind in _SINGLE_FIELD:
            spread = u * scale
            return {"spread": spread, "sigma": soft_floor(spread)}
        v = inputs["spread"].shape[1]
        parts = list(u.split(v, 1))
        base = self.get_buffer("offset") + self.get_buffer("slope") * inputs["spread"]
        change = parts[-1] + self.maps["spread"] if "spread" in self.maps else parts[-1]
        estimate = base + scale * change
        out = {"spread": torch.relu(estimate)}
        if self.spread_only:
            return {**out, "sigma": soft_floor(estimate)}
        assert self.family is not None
        shift, sigma = self._shift_sigma(parts, inputs)
        extra = [
            p + (self.maps[name] if name in self.maps else initial)
            for p, name, initial in zip(parts[2:-1], self.family.extra, self.family.initial, strict=True)
        ]
        edges = self.get_buffer("edges") if "edges" in self._buffers and self._buffers["edges"] is not None else None
        parameters = self.family.link(Parts(shift, sigma, inputs["centre"], extra, edges))
        return {**out, "shift": shift, "sigma": sigma, "parameters": torch.stack(parameters)}

    def _features(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Channels of the input: those of the forecast, of a reference, and learned fields."""
        x = [inputs["features"]]
        if "reference_shift" in inputs:
            x += [inputs["reference_shift"], inputs["reference_sigma"]]
        if "embedding" in self.maps:
            x.append(self.maps["embedding"].expand(x[0].shape[0], -1, -1, -1, -1))
        return torch.cat(x, 1)

    def _shift_sigma(self, parts: list[Tensor], inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        s = inputs["spread"]
        if "reference_shift" in inputs:
            return inputs["reference_shift"] + parts[0], inputs["reference_sigma"] * torch.exp(parts[1])
        if self.body.kind in _BASELINES:
            s = torch.clamp(s, min=_LEAST_SPREAD)
            return s * parts[0], s * torch.exp(parts[1])
        m = self.maps
        season = inputs["season"]
        shift = (
            parts[0] + m["shift"] + m["shift_sin"] * season[:, :1] + m["shift_cos"] * season[:, 1:] + m["shift_anomaly"] * inputs["anomaly"]
        )
        return shift, (softplus(m["sigma_floor"]) + softplus(m["sigma_slope"]) * s) * torch.exp(parts[1])
