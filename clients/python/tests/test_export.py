"""Exported networks in PyTorch: the forecast of the program, for each kind of network, distribution and correction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import INITS, Data

import ensemble_weather as ew

torch = pytest.importorskip("torch", reason="skipped: no PyTorch (pip install torch)")

TOLERANCE = 1e-5
ONE_FIELD = {
    "data__levels": "[850hPa]",
    "data__targets": "[{variable: t, levels: [850hPa]}]",
    "model__head": "spread",
    "train__loss__kind": "mse",
    "train__loss__spread": 0,
}
WIND = {
    "data__forecasts": "[wind.nc]",
    "data__analyses": "[wind_an.nc]",
    "data__levels": "[single]",
    "data__variables": "[10si]",
    "data__targets": "[{variable: 10si, levels: [single]}]",
}
STAGES = {
    "model__method": "three_stage",
    "model__bias__base": 2,
    "model__bias__stages": 1,
    "model__bias__folds": 2,
    "train__stages__bias__epochs": 1,
    "train__loss__spread": 0,
}

CASES: dict[str, Mapping[str, Any]] = {
    "unet3d, several networks": {"train__networks": 2, "model__embedding": 2, "data__standardise": "las"},
    "unet3d, divisible grid": {"model__stages": 1, "data__features": "[spread, first]"},
    "unet3d, no control": {"data__members__control": "none", "data__standardise": "las"},
    "unet3d, spread": {"model__head": "spread", "train__loss__kind": "mse", "train__loss__spread": 0},
    "unet3d, no loss of the spread": {"train__loss__spread": 0},
    "unet3d, two leads": {"data__target_leads": "[24h, 48h]"},
    "unet3d, channels removed": {
        "model__base": 4,
        "prune__structure": "channel",
        "prune__method": "magnitude",
        "prune__target": 0.5,
        "prune__from": "25%",
        "prune__to": "75%",
        "prune__every": 2,
        "prune__channel_multiple": 1,
    },
    "resnet2d_simple": {**ONE_FIELD, "model__kind": "resnet2d_simple", "train__learning_rate": 0.001},
    "drn": {"model__kind": "drn", "model__base": 8},
    "lenet": {"model__kind": "lenet"},
    "unet2d": {"model__kind": "unet2d"},
    "drn, gamma": {**WIND, "model__kind": "drn", "model__base": 8, "model__family": "censored_shifted_gamma"},
    "stages": {**STAGES, "model__bias__local": 3},
    "stages, no local layer": {**STAGES, "model__bias__local": 0, "model__bias__stages": 0},
    "student": {"calibrate__distribution": "student"},
    "normal, wind": WIND,
    **{f"{f}": {"model__family": f} for f in ("logistic", "bernstein", "histogram")},
    **{
        f"{f}, wind": {**WIND, "model__family": f}
        for f in (
            "truncated_normal",
            "censored_normal",
            "zero_normal",
            "log_normal",
            "logistic",
            "truncated_logistic",
            "censored_logistic",
            "censored_shifted_gamma",
            "histogram",
        )
    },
    "bernstein, wind": {**WIND, "model__family": "bernstein"},
    "histogram, wind, two networks": {**WIND, "model__family": "histogram", "train__networks": 2},
    "gamma, two networks": {**WIND, "model__family": "censored_shifted_gamma", "train__networks": 2},
    **{f"corrects {r}": {"model__reference": r} for r in ("emos", "emos_grid", "emos_point", "samos", "climatology")},
}
# The loss of families whose default is not the CRPS.
LOSS = {"histogram": "cross_entropy"}


def exported(train: Callable[..., Path], program: Path, name: str, keys: Mapping[str, Any]) -> tuple[Path, Path]:
    """A run directory, and the folder of its export."""
    folder = "".join(c if c.isalnum() else "-" for c in name)
    loss = LOSS.get(str(keys.get("model__family")))
    run = train(folder, **{**keys, **({"train__loss__kind": loss} if loss else {})})
    out = run.parent / f"{folder}-exported"
    ew.run("model", "export", program=program, progress=False, run_dir=run, out=out)
    return run, out


@pytest.mark.parametrize("name", CASES)
def test_prediction(name: str, train: Callable[..., Path], predict: Callable[..., Path], program: Path, data: Data) -> None:
    keys = CASES[name]
    run, out = exported(train, program, name, keys)
    wind = "wind" in str(keys.get("data__forecasts"))
    head = keys.get("model__head", "distribution")
    estimated = head == "spread" or "model__method" in keys or keys.get("train__loss__spread") != 0
    products = "[ensemble_spread]" if head == "spread" else f"[mean,spread,{'ensemble_spread,' if estimated else ''}parameters]"
    want = ew.open_products(predict(run, 37, source="wind" if wind else "upper", set={"products": products})).isel(
        forecast_reference_time=0
    )
    members = (data.surface if wind else data.upper).isel(forecast_reference_time=37)
    model = ew.load_export(out)
    have = model.predict(members)
    names = [n for n in want.data_vars if n != "crs"]
    assert len(names) >= (1 if head == "spread" else 3) and set(names) <= set(have.data_vars), name
    assert estimated == any(n.endswith("_ensemble_spread") for n in have.data_vars), name
    raw = members[next(iter(members.data_vars if not wind else ["si10"]))].isel(realization=slice(3)).mean("realization")
    for n in names:
        w, h = want[n].transpose(*have[n].dims), have[n]
        scale = float(np.abs(w).max())
        difference = np.abs(h.values - w.values)
        assert np.nanmax(difference) <= TOLERANCE * scale, f"{name}: {n} differs by {np.nanmax(difference) / scale:.2g} of {scale:.4g}"
        np.testing.assert_array_equal(np.isnan(h.values), np.isnan(w.values))
    if "t_mean" in names:  # the correction too, without the 270 K that it is added to
        r = raw.sel(forecast_period=have.forecast_period / np.timedelta64(1, "h"), pressure=have.pressure).transpose(
            *[d for d in have.t_mean.dims]
        )
        shift = want.t_mean.transpose(*have.t_mean.dims).values - r.values
        assert np.abs(shift).max() > 0.01, "the network corrects nothing"
        assert np.abs(have.t_mean.values - want.t_mean.transpose(*have.t_mean.dims).values).max() <= TOLERANCE * np.abs(
            shift
        ).max() + np.spacing(np.float32(300)), name


def test_missing_members(train: Callable[..., Path], predict: Callable[..., Path], program: Path, data: Data) -> None:
    """A point that one member lacks is missing in the forecast, and does not spread."""
    run, out = exported(train, program, "unet3d, missing", {})
    holes = data.upper.isel(forecast_reference_time=[37]).copy(deep=True)
    holes["t"][0, 1, :, :, 2, 5] = np.nan
    holes.to_netcdf(data.folder / "holes.nc")
    want = ew.open_products(predict(run, 37, source="holes")).isel(forecast_reference_time=0)
    have = ew.load_export(out).predict(holes.isel(forecast_reference_time=0))
    assert int(np.isnan(want.t_mean).sum()) == 2
    for n in ("t_mean", "t_spread", "t_ensemble_spread"):
        w = want[n].transpose(*have[n].dims).values
        np.testing.assert_array_equal(np.isnan(have[n].values), np.isnan(w))
        assert np.nanmax(np.abs(have[n].values - w)) <= TOLERANCE * np.nanmax(np.abs(w))


def test_module(train: Callable[..., Path], program: Path, data: Data) -> None:
    """It is a module: gradients, the published names, golden values, a batch."""
    from safetensors.torch import load_file

    _, out = exported(train, program, "unet3d, module", {})
    model = ew.load_export(out)
    inputs = [model.inputs.build(model.inputs.fields(data.upper.isel(forecast_reference_time=i)), INITS[i]) for i in (36, 37)]
    assert inputs[0].features.shape[1] == len(model.inputs.channels) and "first(t) at 24h" in model.inputs.channels
    single = [model(x).mean for x in inputs]
    batch = model({k: torch.cat([model.tensors(x)[k] for x in inputs]) for k in model.tensors(inputs[0])})
    torch.testing.assert_close(batch.mean, torch.cat(single), rtol=1e-6, atol=1e-4)
    batch.spread.mean().backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if n.startswith("networks.0.body"))
    weights = load_file(out / "network-00.safetensors")
    body = model.networks[0].body
    names = set(body.state_dict())
    assert {n for n in weights if not n.startswith("golden.")} == {n for n in names if not n.endswith("num_batches_tracked")}
    body.description["periodic"] = False  # golden values are those of the published network
    golden = body(weights["golden.input"])
    assert (golden - weights["golden.output"]).abs().max() <= TOLERANCE * weights["golden.output"].abs().max()


def test_order_of_points(train: Callable[..., Path], program: Path, data: Data) -> None:
    """Rows, columns, members and axes may be in another order in the forecast."""
    _, out = exported(train, program, "unet3d, order", {})
    model = ew.load_export(out)
    members = data.upper.isel(forecast_reference_time=37)
    other = members.isel(latitude=slice(None, None, -1), realization=[3, 1, 0, 2], pressure=[1, 0], forecast_period=[1, 0]).roll(
        longitude=9, roll_coords=True
    )
    other = other.assign_coords(longitude=(other.longitude + 180) % 360 - 180).transpose("longitude", ...)
    xr.testing.assert_identical(model.predict(members), model.predict(other.rename(realization="number", pressure="isobaricInhPa")))
    with pytest.raises(KeyError, match="members"):
        model.predict(members.isel(realization=[0, 1]))
    with pytest.raises(ValueError, match="grid"):
        model.predict(members.isel(latitude=slice(1, None)))


def test_other_format(tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        ew.load_export(tmp_path)
