"""The networks of an export with their input and output: the forecast of the program, as a module."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from torch import Tensor, nn

from ..features import InputBuilder, Inputs
from ..products import identifier
from ..references import Reference
from .bodies import Body
from .calibrated import Calibrated
from .families import NON_NEGATIVE, Family, family, moments_of

_FORMAT = 1


@dataclass(frozen=True)
class Outputs:
    """The forecast of a network, in SI units; NaN where a member is missing.

    mean, spread      mean and standard deviation of the distribution; None of a network that predicts the spread only
    ensemble_spread   estimated spread of the full ensemble; None if no loss trained it
    parameters        of the distribution, by name; mu and sigma of a normal one
    Shapes: [N V D Y X] for V pairs of lead and variable on D levels.
    """

    ensemble_spread: Tensor | None = None
    mean: Tensor | None = None
    spread: Tensor | None = None
    parameters: Mapping[str, Tensor] | None = None


class ExportedModel(nn.Module):
    """A trained model: `networks`, whose outputs are averaged, with the input builder `inputs`.

    `spreads` and `bias` are the networks of the other stages of a training in stages. Parameters are on the CPU and want
    gradients; `to`, `requires_grad_` and `state_dict` are those of torch.nn.Module. The module is in evaluation mode.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        inputs: InputBuilder,
        networks: Sequence[Calibrated],
        spreads: Sequence[Calibrated],
        bias: Body | None,
    ) -> None:
        super().__init__()
        self.description, self.inputs = description, inputs
        self.networks, self.spreads, self.bias = nn.ModuleList(networks), nn.ModuleList(spreads), bias
        task = description["model"]["task"]
        shape = (1, len(inputs.targets), len(inputs.axes.levels), 1, 1)
        self.register_buffer("error_scale", torch.tensor(task["error_scale"], dtype=torch.float64).reshape(shape).float())
        self.eval()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ExportedModel:
        folder = Path(path)
        with open(folder / "export.json", encoding="utf-8") as f:
            export = json.load(f)
        if export["format"] != _FORMAT:
            raise ValueError(
                f"{folder}/export.json: format {export['format']}, this package reads {_FORMAT}: export again, or install another version"
            )
        model, network = export["model"], export["network"]
        _warn_of_other_arithmetic(model, folder)
        reference = Reference.load(folder / export["reference"]) if export.get("reference") else None
        inputs = InputBuilder(export, load_arrays(folder / export["arrays"]), reference)
        if network["kind"] == "resnet2d_simple" and "reinject" not in network:  # of a network with removed channels
            network["reinject"] = inputs.channels.index("spread({}) at {}".format(*inputs.targets[0]))
        head = model["network"]["head"].get("distribution")
        staged = model["network"].get("method") == "three_stage"
        of = family(head["family"], head.get("degree", 0), head.get("bins", 0)) if head else None

        def read(weights: Sequence[str], maps: Sequence[str]) -> list[Calibrated]:
            nets = []
            for i, name in enumerate(weights):
                tensors = {k: x for k, x in load_file(folder / name).items() if not k.startswith("golden.")}
                nets.append(
                    Calibrated(
                        Body(network["kind"], tensors, network),
                        load_file(folder / maps[i]) if maps else {},
                        model["task"],
                        (len(inputs.targets), len(inputs.axes.levels)),
                        spread_only=staged or head is None,
                        family=of,
                    )
                )
            return nets

        bias = Body("bias", load_file(folder / export["bias"]), network) if export.get("bias") else None
        return cls(
            export,
            inputs,
            read(export["weights"], export.get("maps") or ()),
            read(export.get("spread") or (), export.get("spread_maps") or ()),
            bias,
        )

    def forward(self, inputs: Inputs | Mapping[str, Tensor]) -> Outputs:
        """The forecast for the input of one or several initialisations."""
        x = self.tensors(inputs) if isinstance(inputs, Inputs) else inputs
        e, mean = self.get_buffer("error_scale"), x["mean"]
        given = [net(x) for net in self.networks]
        spread = _average([net(x)["spread"] for net in self.spreads] if self.spreads else [g["spread"] for g in given])
        ensemble_spread: Tensor | None = torch.where(torch.isnan(mean), mean, torch.relu(e * spread))
        head = self.description["model"]["network"]["head"].get("distribution")
        if head is not None and self.bias is None and not head.get("spread_weight"):
            ensemble_spread = None
        if head is None:
            return Outputs(ensemble_spread)
        if self.bias is not None:
            shift, sigma = self.bias(x["features"], x["anomaly"]), _average([g["sigma"] for g in given])
            return self._distribution(ensemble_spread, [shift, sigma], x)
        networks = [list(g["parameters"]) for g in given]
        of = self._family()
        if len(networks) == 1:
            average = networks[0]
        else:
            average = of.average(networks) if of.average else [_average(p) for p in zip(*networks, strict=True)]
        return self._distribution(ensemble_spread, average, x)

    def _distribution(self, ensemble_spread: Tensor | None, parameters: Sequence[Tensor], x: Mapping[str, Tensor]) -> Outputs:
        """Parameters in SI units, recalibrated, with the moments of the published distribution."""
        e, centre = self.get_buffer("error_scale"), x["mean"]
        name, of = self.description["model"]["network"]["head"]["distribution"]["family"], self._family(len(self.networks))
        si = []
        for p, role in zip(parameters, of.roles, strict=True):
            if role == "location":
                p = centre + e * p
                if name == "histogram":
                    p = torch.where(self._non_negative(p), torch.relu(p), p)  # edges below 0 are a point mass at 0
            elif role == "scale":
                p = e * p
            elif role == "log_location":
                p = p + torch.log(e)
            si.append(torch.where(torch.isnan(centre), centre, p))
        if recalibrations := self.description["model"].get("recalibrations"):
            factor, nu = (
                torch.tensor([r[k] for r in recalibrations], dtype=e.dtype, device=e.device).reshape(e.shape)
                for k in ("spread_factor", "degrees_of_freedom")
            )
            si = [si[0], si[1] * factor / torch.sqrt(nu / (nu - 2)), torch.where(torch.isnan(centre), centre, nu)]
            name, of = "student", family("student")
        moments = [moments_of(name, variable, of)([p[:, v].double() for p in si]) for v, (variable, _) in enumerate(self.inputs.targets)]
        mean, spread = (torch.stack([m[i] for m in moments], 1).to(e.dtype) for i in (0, 1))
        return Outputs(ensemble_spread, mean, spread, dict(zip(of.parameters, si, strict=True)))

    def _family(self, networks: int = 1) -> Family:
        """The family of one network, or of the average of several: an average of histograms has the bins of all."""
        head = self.description["model"]["network"]["head"]["distribution"]
        return family(head["family"], head.get("degree", 0), networks * (head.get("bins", 0) - 1) + 1)

    def _non_negative(self, like: Tensor) -> Tensor:
        flags = [variable in NON_NEGATIVE for variable, _ in self.inputs.targets]
        return torch.tensor(flags, device=like.device).reshape(1, -1, 1, 1, 1)

    def tensors(self, inputs: Inputs) -> dict[str, Tensor]:
        """The input as tensors on the device of the module."""
        device = self.get_buffer("error_scale").device
        return {k: torch.from_numpy(np.ascontiguousarray(v)).to(device) for k, v in vars(inputs).items() if v is not None}

    @torch.no_grad()
    def predict(self, forecast: xr.Dataset, init: str | np.datetime64 | pd.Timestamp | None = None) -> xr.Dataset:
        """The forecast as a dataset with the names of the program's NetCDF products, on the grid of the training.

        forecast has the members of one initialisation (InputBuilder.fields); init is the initialisation if it has no
        coordinate of it. Dimensions: forecast_period, pressure for levels in hPa, latitude and longitude or y and x.
        """
        out = self(self.inputs.build(self.inputs.fields(forecast), _init_of(forecast) if init is None else init))
        fields = {"mean": out.mean, "spread": out.spread, "ensemble_spread": out.ensemble_spread}
        fields.update({f"parameter_{k}": v for k, v in (out.parameters or {}).items()})
        return self._dataset({k: v[0].cpu().numpy() for k, v in fields.items() if v is not None})

    def _dataset(self, fields: Mapping[str, np.ndarray[Any, Any]]) -> xr.Dataset:
        """Fields [V D Y X] as variables over leads."""
        grid, levels = self.inputs.grid, self.inputs.axes.levels
        regular = grid["kind"] in ("regular_ll", "regular_gg")
        rows = ("latitude", "longitude") if regular else ("y", "x")
        coords: dict[str, Any] = {"latitude": grid["lat"], "longitude": grid["lon"]} if regular else {}
        pressure = all(x.endswith("hPa") for x in levels)
        if pressure:
            coords["pressure"] = [float(x.removesuffix("hPa")) for x in levels]
        leads = sorted({pd.Timedelta(lead) for _, lead in self.inputs.targets})
        out = xr.Dataset(coords={"forecast_period": pd.to_timedelta(leads), **coords})
        for variable in dict.fromkeys(v for v, _ in self.inputs.targets):
            at = sorted((pd.Timedelta(lead), i) for i, (v, lead) in enumerate(self.inputs.targets) if v == variable)
            own = pd.to_timedelta([lead for lead, _ in at])
            for kind, values in fields.items():
                x = np.stack([values[i] for _, i in at])
                dims = ("forecast_period", "pressure", *rows) if pressure else ("forecast_period", *rows)
                array = xr.DataArray(x if pressure else x[:, 0], dims=dims, coords={"forecast_period": own})
                out[f"{identifier(variable)}_{kind}"] = array.reindex(forecast_period=out["forecast_period"])
        return out


def _average(fields: Sequence[Tensor]) -> Tensor:
    return fields[0] if len(fields) == 1 else torch.stack(list(fields)).mean(0)


def _init_of(forecast: xr.Dataset) -> np.datetime64:
    for name in ("forecast_reference_time", "init", "time"):
        if name in forecast.coords and forecast[name].size == 1:
            return np.datetime64(forecast[name].values.reshape(()).item(), "ns")
    raise KeyError("the forecast has no single forecast_reference_time, init or time: give init")


def _warn_of_other_arithmetic(model: Mapping[str, Any], folder: Path) -> None:
    """Warn if the program predicts in another precision than this package."""
    precision = model["network"].get("precision") or "f32"
    if model.get("int8") or precision not in ("f32", "tf32"):
        theirs = "int8" if model.get("int8") else precision
        warnings.warn(
            f"{folder}: the program predicts with this model in {theirs}, PyTorch in float32: the forecasts differ by rounding",
            stacklevel=3,
        )
