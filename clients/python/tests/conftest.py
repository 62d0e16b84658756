"""Outputs of the program for the tests: small random forecasts, a training of seconds, and products of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ensemble_weather as ew

ROOT = Path(__file__).resolve().parents[3]


LATITUDE, LONGITUDE = np.arange(80.0, -81, -20), np.arange(0.0, 360, 20)
LEADS = pd.to_timedelta([24, 48], unit="h")
MEMBERS, INITS = 4, pd.date_range("2001-01-01", periods=40, freq="27D")

# Initialisation, row and column of a point where all members are equal.
SPREADLESS = (37, 4, 3)

# Standard name, unit, mean and standard deviation by variable. Upper fields are on two levels.
UPPER = {"t": ("air_temperature", "K", 265, 4), "u": ("eastward_wind", "m s-1", 5, 4)}
SURFACE = {"t2m": ("air_temperature", "K", 285, 4), "si10": ("wind_speed", "m s-1", 4, 1.5)}


@dataclass(frozen=True)
class Data:
    """Files of forecasts and analyses, and the forecasts themselves."""

    folder: Path
    upper: xr.Dataset
    surface: xr.Dataset


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--program", default=str(ROOT / "bin" / "ensemble"), help="path of the program (default: bin/ensemble of the checkout)"
    )


@pytest.fixture(scope="session")
def program(request: pytest.FixtureRequest) -> Path:
    path = Path(request.config.getoption("--program"))
    if not path.is_file():
        pytest.skip(f"skipped: no {path} (make build)")
    return path


def _smooth(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random fields of a few waves around the globe, of variance 1. Shape: [*shape lat lon]."""
    lon, lat = np.radians(LONGITUDE), np.radians(LATITUDE)[:, None]
    waves = [np.cos(lat) ** k * np.cos(k * lon + p) * np.cos(m * lat) for k in range(4) for p in (0, np.pi / 2) for m in (0, 1, 2)]
    basis = np.stack([w + 0 * lat for w in waves])
    return np.tensordot(random.standard_normal((*shape, len(basis))), basis / np.sqrt((basis**2).mean((1, 2)).sum() / 2), 1)


def _make(variables: dict[str, tuple[str, str, float, float]], levels: list[float], seed: int) -> tuple[xr.Dataset, xr.Dataset]:
    """Forecasts that are biased and underdispersive, and analyses at their valid times."""
    random = np.random.default_rng(seed)
    n, leads, depth = len(INITS), len(LEADS), max(1, len(levels))
    fc, an = {}, {}
    valid = np.sort(np.unique((INITS.values[:, None] + LEADS.values[None]).ravel()))
    for name, (standard, unit, mean, std) in variables.items():
        truth = _smooth(random, n, leads, depth)
        error = 0.5 * _smooth(random, n, leads, depth) + 0.3 * np.sin(np.radians(LONGITUDE))
        members = truth[:, None] + error[:, None] + 0.3 * _smooth(random, n, MEMBERS, leads, depth)
        scaled = [mean + std * x if name != "si10" else np.abs(mean + std * x) for x in (members, truth)]
        scaled[0][SPREADLESS[0], :, ..., SPREADLESS[1], SPREADLESS[2]] = scaled[0][SPREADLESS[0], :1, ..., SPREADLESS[1], SPREADLESS[2]]
        attrs = {"standard_name": standard, "units": unit}
        level = ("pressure",) if levels else ()
        pick = slice(None) if levels else 0
        where = {tuple(k): v for k, v in zip(np.argwhere(np.ones((n, leads))), (INITS.values[:, None] + LEADS.values).ravel(), strict=True)}
        by_valid = np.stack([scaled[1][i] for i in sorted(where, key=where.__getitem__)])
        fc[name] = (
            ("forecast_reference_time", "realization", "forecast_period", *level, "latitude", "longitude"),
            scaled[0][:, :, :, pick].astype(np.float32),
            attrs,
        )
        an[name] = (("time", *level, "latitude", "longitude"), by_valid[:, pick].astype(np.float32), attrs)
    axes = {
        "latitude": ("latitude", LATITUDE, {"units": "degrees_north", "standard_name": "latitude"}),
        "longitude": ("longitude", LONGITUDE, {"units": "degrees_east", "standard_name": "longitude"}),
    }
    if levels:
        axes["pressure"] = ("pressure", levels, {"units": "hPa", "standard_name": "air_pressure", "positive": "down"})
    else:
        axes["height"] = ((), 10.0 if "si10" in variables and "t2m" not in variables else 2.0, {"units": "m", "standard_name": "height"})
    coords = {
        "forecast_reference_time": ("forecast_reference_time", INITS, {"standard_name": "forecast_reference_time"}),
        "forecast_period": ("forecast_period", LEADS / pd.Timedelta("1h"), {"units": "hours", "standard_name": "forecast_period"}),
        "realization": ("realization", np.arange(MEMBERS), {"standard_name": "realization"}),
    }
    return xr.Dataset(fc, {**axes, **coords}), xr.Dataset(an, {**axes, "time": ("time", valid, {"standard_name": "time"})})


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("data")
    kinds = {
        "upper": _make(UPPER, [850.0, 500.0], 1),
        "surface": _make({"t2m": SURFACE["t2m"]}, [], 2),
        "wind": _make({"si10": SURFACE["si10"]}, [], 3),
    }
    for name, (fc, an) in kinds.items():
        fc.to_netcdf(folder / f"{name}.nc")
        an.to_netcdf(folder / f"{name}_an.nc")
    surface = xr.merge([kinds["surface"][0].drop_vars("height"), kinds["wind"][0].drop_vars("height")])
    return Data(folder, kinds["upper"][0], surface)


_CONFIG = """version: 1
data:
  forecasts: [upper.nc]
  analyses: [upper_an.nc]
  members: {use: 3, full: 4, sampling: fixed}
  leads: [24h, 48h]
  target_leads: [48h]
  levels: [850hPa, 500hPa]
  variables: [t, u]
  targets: [{variable: t, levels: [850hPa, 500hPa]}]
  split: {fractions: {train: 0.45, validation: 0.15}} # enough test dates for p-values
model: {kind: unet3d, base: 2, stages: 2, dropout: 0}
baselines: [climatology]
train: {epochs: 2, batch_size: 4, learning_rate: 0.02, threads: 1, networks: 1, loss: {spread: 0.5}, early_stop: {patience: 0}}
"""


@pytest.fixture(scope="session")
def train(program: Path, data: Data) -> Callable[..., Path]:
    """Trains a network in seconds and returns its run directory; other keys of the configuration are arguments."""
    (data.folder / "train.yaml").write_text(_CONFIG)

    def do(name: str, *args: str, **keys: object) -> Path:
        out = data.folder / "runs" / name
        ew.run(
            "train",
            *args,
            program=program,
            progress=False,
            cwd=data.folder,
            config="train.yaml",
            run_dir=out,
            set={k.replace("__", "."): v for k, v in keys.items()},
        )
        return out

    return do


@pytest.fixture(scope="session")
def run_dir(train: Callable[..., Path]) -> Path:
    return train("readers", baselines="[emos_grid]")


@pytest.fixture(scope="session")
def predict(program: Path, data: Data, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Publishes products of some initialisations and returns their folder."""

    def do(run_dir: Path, *inits: int, source: str = "upper", set: dict[str, object] | None = None, **flags: object) -> Path:
        out = tmp_path_factory.mktemp("products")
        for i in inits or (36, 37):
            ew.run(
                "predict",
                program=program,
                progress=False,
                run_dir=run_dir,
                input=data.folder / f"{source}.nc",
                out=out,
                init=INITS[i].strftime("%Y%m%d%H"),
                set=set,
                **flags,
            )
        return out

    return do
