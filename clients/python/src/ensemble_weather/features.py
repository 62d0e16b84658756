"""Input of an exported network, from the members of a forecast, in NumPy.

Formulas: docs/formats/network.md and docs/formats/run.md of the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from .products import identifier
from .references import Reference

Fields = npt.NDArray[np.float32]

# Largest absolute value of a channel of statistics: values beyond are set to it.
_INPUT_LIMIT = 20.0


@dataclass(frozen=True)
class Axes:
    """Axes of the network's input, as in configuration files: variables, levels ("850hPa") and leads ("48h")."""

    variables: Sequence[str]
    levels: Sequence[str]
    leads: Sequence[str]


@dataclass(frozen=True)
class Inputs:
    """Input of a network for one initialisation.

    Shapes: features [1 C D Y X]; the others [1 V D Y X] for V pairs of lead and variable on D levels, but season
    [1 2 1 1 1]. Units: features, anomaly and season none; spread, centre and reference_… the error scale; mean, the
    mean of the members, SI. Missing: NaN in mean, else 0.
    """

    features: Fields
    spread: Fields
    anomaly: Fields
    season: Fields
    centre: Fields
    mean: Fields
    reference_shift: Fields | None = None
    reference_sigma: Fields | None = None


class InputBuilder:
    """Builds the input of an exported network: statistics of members, normalisation, constant fields.

    channels describes each channel of the network's input; the first of them are those of Inputs.features.
    """

    def __init__(self, export: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], reference: Reference | None) -> None:
        model, task = export["model"], export["model"]["task"]
        features = task["features"]
        self.axes = Axes(**{k: tuple(features["axes"][k]) for k in ("variables", "levels", "leads")})
        self.channels: tuple[str, ...] = tuple(export["inputs"])
        self.members: tuple[int, ...] = tuple(task["members"])
        self.targets: tuple[tuple[str, str], ...] = tuple((t["variable"], t["lead"]) for t in task["targets"])
        self.grid: Mapping[str, Any] = model["grid"]
        self._features, self._arrays, self._reference = features, arrays, reference
        self._error_scale = np.asarray(task["error_scale"], np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.grid["ny"], self.grid["nx"]

    def fields(self, forecast: xr.Dataset) -> Fields:
        """The fields of the members in use, from a dataset of one initialisation as xarray or cfgrib opens it.

        Variables have the names of GRIB or of NetCDF (2t or t2m). Axes have the names of CF, of cfgrib or of
        WeatherBench. Rows may have any order, columns any first longitude. Units are SI.

        Shape: [lead member variable level Y X], as `build` wants it.
        Raises KeyError for a variable, lead, member or level that is not there, ValueError for another grid.
        """
        return np.stack([np.stack([self._field(forecast, v, lead) for v in self.axes.variables], axis=1) for lead in self.axes.leads])

    def _field(self, forecast: xr.Dataset, variable: str, lead: str) -> Fields:
        """Shape: [member level Y X]."""
        name = next((n for n in (variable, identifier(variable)) if n in forecast), None)
        if name is None:
            raise KeyError(
                f"no variable {variable} or {identifier(variable)} in the forecast, only {', '.join(map(str, forecast.data_vars))}"
            )
        field = _select(forecast[name], "lead", _LEAD_NAMES, [pd.Timedelta(lead)], _leads, f"lead {lead} of {variable}").isel(
            lead=0, drop=True
        )
        field = _select(field, "member", _MEMBER_NAMES, self.members, _plain, f"members of {variable}")
        if all(_pressure(x) is not None for x in self.axes.levels):
            field = _select(field, "level", _LEVEL_NAMES, [_pressure(x) for x in self.axes.levels], _hectopascal, f"levels of {variable}")
        return self._on_grid(field).reshape(len(self.members), len(self.axes.levels), *self.shape)

    def _on_grid(self, field: xr.DataArray) -> Fields:
        """Values with rows from north to south and columns from 0 to 360 degrees east. Shape: [member (level) Y X]."""
        rows = next((d for d in ("latitude", "lat", "y") if d in field.dims), None)
        columns = next((d for d in ("longitude", "lon", "x") if d in field.dims), None)
        if rows is None or columns is None:
            raise ValueError(f"{field.name}: axes {field.dims}, want latitude and longitude, or y and x")
        axes = [d for d in ("member", "level", rows, columns) if d in field.dims]
        field = field.squeeze([d for d in field.dims if d not in axes], drop=True).transpose(*axes)
        height, width = self.shape
        if field.shape[-2:] != self.shape:
            have = f"{field.shape[-2]} x {field.shape[-1]}"
            raise ValueError(f"{field.name}: a grid of {have} points, want the {height} x {width} points of the training")
        if self.grid["kind"] in ("regular_ll", "regular_gg"):
            latitude, longitude = field[rows].values.astype(np.float64), field[columns].values.astype(np.float64) % 360
            want = np.asarray(self.grid["lon"], np.float64) % 360
            field = field.isel({rows: np.argsort(-latitude), columns: np.argsort(longitude)[np.argsort(np.argsort(want))]})
            same = np.allclose(field[rows].values, self.grid["lat"], atol=1e-3) and np.allclose(
                field[columns].values % 360, want, atol=1e-3
            )
            if not same:
                raise ValueError(f"{field.name}: its latitudes and longitudes are not those of the training")
        return np.asarray(field.values, np.float32)

    def build(self, fields: Fields, init: str | np.datetime64 | pd.Timestamp) -> Inputs:
        """The input of one initialisation.

        Shape: fields [lead member variable level Y X], the axes as in `axes`, members as in `members`.
        Raises ValueError for another shape.
        """
        a = self.axes
        want = (len(a.leads), len(self.members), len(a.variables), len(a.levels), *self.shape)
        if fields.shape != want:
            raise ValueError(f"fields of shape {fields.shape}, want {want}: [lead member variable level Y X]")
        when = pd.Timestamp(init)
        mean, spread = _moments(fields, int(self._features["spread_ddof"]))
        features = np.concatenate([self._statistics(fields, mean, spread), *self._fixed(when)])
        at = [self._target(variable, lead) for variable, lead in self.targets]
        m, s = np.stack([mean[i] for i in at]), np.stack([spread[i] for i in at])
        scale = (1 / self._error_scale).astype(np.float32).reshape(*m.shape[:2], 1, 1)
        centre, width = self._maps("anomaly_centre", m.shape), self._maps("anomaly_width", m.shape)
        season = np.array([np.sin(_season(when)), np.cos(_season(when))], np.float32).reshape(1, 2, 1, 1, 1)
        shift = sigma = None
        if self._reference is not None:
            shift, sigma = self._reference.units(m, s, [when + pd.Timedelta(lead) for _, lead in self.targets], scale)
        return Inputs(
            features[None],
            _filled(s * scale)[None],
            _filled((m - centre) / width)[None],
            season,
            _filled(m * scale)[None],
            m[None],
            None if shift is None else shift[None],
            None if sigma is None else sigma[None],
        )

    def _target(self, variable: str, lead: str) -> tuple[int, int]:
        """Positions on the axes of leads and variables. A target after the last lead is predicted from that."""
        leads = [pd.Timedelta(x) for x in self.axes.leads]
        at = leads.index(pd.Timedelta(lead)) if pd.Timedelta(lead) in leads else len(leads) - 1
        return at, list(self.axes.variables).index(variable)

    def _maps(self, name: str, shape: tuple[int, ...]) -> Fields:
        return np.stack([self._arrays[f"{name}.{i:03d}"] for i in range(shape[0] * shape[1])]).reshape(shape)

    def _statistics(self, fields: Fields, mean: Fields, spread: Fields) -> Fields:
        """Channels of statistics of members. Shape: [lead·aggregate·variable level Y X]."""
        leads, _, variables, levels = fields.shape[:4]
        per_field = (leads, variables, levels, 1, 1)
        inverse = (1 / np.asarray(self._features["spreads"], np.float64)).astype(np.float32).reshape(per_field)
        first = fields[:, 0]
        of: dict[str, Callable[[], Fields]] = {
            "spread": lambda: spread * inverse,
            "first": lambda: self._standardised(first),
            "mean": lambda: self._standardised(mean),
            "offset": lambda: (mean - first) * inverse,
        }
        channels = np.stack([of[name]() for name in self._features["aggregates"]], axis=1)
        return np.clip(_filled(channels), -_INPUT_LIMIT, _INPUT_LIMIT).reshape(-1, *channels.shape[3:])

    def _standardised(self, first: Fields) -> Fields:
        out = np.empty_like(first)
        for i, at in enumerate(np.ndindex(*first.shape[:3])):
            centre, scale = (self._arrays[f"{k}.{i:03d}"] for k in ("feature_mean", "feature_scale"))
            if centre.size > 1:
                centre, scale = centre.reshape(self.shape), scale.reshape(self.shape)
            out[at] = ((first[at].astype(np.float64) - centre) / scale).astype(np.float32)
        return out

    def _fixed(self, init: pd.Timestamp) -> list[Fields]:
        """Channels of location, season and constant fields, the same at each level."""
        fields: list[Fields] = []
        if self._features["location"]:
            lat, lon = (np.radians(x) for x in self._latlon())
            fields += [np.sin(lat), np.cos(lat) * np.sin(lon), np.cos(lat) * np.cos(lon)]
        if self._features["season"]:
            angle = _season(init)
            fields += [np.full(self.shape, np.sin(angle)), np.full(self.shape, np.cos(angle))]
        fields += [self._arrays[f"auxiliary.{i:03d}"].reshape(self.shape) for i in range(len(self._features.get("auxiliary") or ()))]
        return [np.broadcast_to(f.astype(np.float32), (1, len(self.axes.levels), *self.shape)) for f in fields]

    def _latlon(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        lat, lon = np.asarray(self.grid["lat"], np.float64), np.asarray(self.grid["lon"], np.float64)
        if self.grid["kind"] in ("regular_ll", "regular_gg"):
            lat, lon = np.meshgrid(lat, lon, indexing="ij")
        return lat.reshape(self.shape), lon.reshape(self.shape)


def _moments(fields: Fields, ddof: int) -> tuple[Fields, Fields]:
    """Mean and standard deviation over members, summed in double precision. Shape: [lead variable level Y X]."""
    x = fields.astype(np.float64)
    return x.mean(axis=1).astype(np.float32), x.std(axis=1, ddof=ddof).astype(np.float32)


def _filled(x: Fields) -> Fields:
    """NaN as 0, which a network can read."""
    return np.where(np.isnan(x), np.float32(0), x).astype(np.float32)


def _season(when: pd.Timestamp) -> float:
    """Phase of the year in radians: 0 at the start of 1 January, 2π after 365.25 days."""
    begin = pd.Timestamp(when.year, 1, 1, tz=when.tz)
    return float(2 * np.pi * ((when - begin) / pd.Timedelta(days=1)) / 365.25)


_LEAD_NAMES = ("forecast_period", "step", "prediction_timedelta", "lead", "lead_time")
_MEMBER_NAMES = ("realization", "number", "member")
_LEVEL_NAMES = ("pressure", "isobaricInhPa", "level", "plev")


def _pressure(level: str) -> float | None:
    """A pressure level in hPa; None for other levels."""
    m = re.fullmatch(r"([\d.]+)(hPa|Pa)", level)
    return float(m[1]) / (100 if m[2] == "Pa" else 1) if m else None


def _plain(axis: xr.DataArray) -> list[Any]:
    return list(np.atleast_1d(axis.values))


def _leads(axis: xr.DataArray) -> list[Any]:
    values = np.atleast_1d(axis.values)
    unit = {"hours": "h", "hour": "h", "h": "h", "seconds": "s", "minutes": "min", "days": "D"}.get(
        str(axis.attrs.get("units", "hours")), "h"
    )
    return list(pd.to_timedelta(values) if np.issubdtype(values.dtype, np.timedelta64) else pd.to_timedelta(values, unit=unit))


def _hectopascal(axis: xr.DataArray) -> list[Any]:
    return list(np.atleast_1d(axis.values).astype(np.float64) / (100 if axis.attrs.get("units") == "Pa" else 1))


def _select(
    field: xr.DataArray, to: str, names: Sequence[str], want: Sequence[Any], positions: Callable[[xr.DataArray], list[Any]], what: str
) -> xr.DataArray:
    """Select positions of the axis with one of some names, and name it `to`. A scalar coordinate is an axis of length 1."""
    axis = next((n for n in names if n in field.coords), None)
    if axis is None:
        raise KeyError(f"{what}: no axis, want one of {', '.join(names)}")
    have = positions(field[axis])
    missing = [w for w in want if w not in have]
    if missing:
        raise KeyError(f"{what}: {missing} are not in {have}")
    if axis not in field.dims:
        field = field.expand_dims(axis)
    field = field.isel({axis: [have.index(w) for w in want]})
    return field if axis == to else field.rename({axis: to})
