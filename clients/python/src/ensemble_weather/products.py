"""Products of `ensemble predict`: the NetCDF, Zarr and GRIB2 files of one or several initialisations as one dataset.

Formats: docs/formats/products.md of the program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

Format = Literal["netcdf", "zarr", "grib2"]
PathLike = str | os.PathLike[str]

INIT, LEAD = "forecast_reference_time", "forecast_period"

# The file of an initialisation that is written last: without it the products are not complete.
_MANIFEST = "manifest.json"
_INIT_FOLDER = re.compile(r"\d{10}(\d\d)?")


def open_products(
    path: PathLike | Sequence[PathLike], *, format: Format | None = None, stations: bool = False, chunks: Mapping[str, int] | None = None
) -> xr.Dataset:
    """Open products as one dataset over initialisations and leads.

    path is the folder of an initialisation, the folder of several, a file, a Zarr store, or a list of these.
    Folders without manifest.json are not published yet and are left out. format chooses among several formats of a
    folder; None is the first of NetCDF, Zarr and GRIB2. With stations the time series at stations are opened. With
    chunks values are read when they are needed, by dask.

    Dimensions: forecast_reference_time (init), forecast_period (lead, timedelta64), then as in the files quantile,
    threshold or realization, pressure, latitude and longitude or y and x. `time` is the valid time of both. Names and
    units are those of the NetCDF profile `xarray`, whatever profile or format the files have; probabilities are 0 to 1.

    Raises FileNotFoundError if nothing is published there.
    """
    files = [f for p in _as_list(path) for f in _files(Path(p), format, stations)]
    if not files:
        raise FileNotFoundError(f"no {format or 'published'} products in {path}: an initialisation has a folder with {_MANIFEST}")
    leads: dict[tuple[Any, Any], list[xr.Dataset]] = {}
    for f in files:
        ds = _open(f, chunks)
        leads.setdefault((ds[INIT].values[()], ds[LEAD].values[()]), []).append(ds)
    parts = {key: _with_axes(_join(_merge(same))) for key, same in leads.items()}
    inits = [_concat([parts[k] for k in sorted(parts) if k[0] == init], LEAD) for init in sorted({k[0] for k in parts})]
    return _concat(inits, INIT)


def open_members(
    path: PathLike | Sequence[PathLike], *, format: Format | None = None, stations: bool = False, chunks: Mapping[str, int] | None = None
) -> xr.Dataset:
    """Open the calibrated members: the variables of open_products with a dimension `realization`.

    Raises FileNotFoundError as open_products, KeyError if no members were published.
    """
    ds = open_products(path, format=format, stations=stations, chunks=chunks)
    names = [name for name, v in ds.data_vars.items() if "realization" in v.dims and not str(name).endswith("_n_members")]
    if not names:
        raise KeyError(f"no members in {path}: publish them with `ensemble predict --set products=[members]`")
    return ds[names]


def read_stations(path: PathLike | Sequence[PathLike]) -> pd.DataFrame:
    """Read the CSV files of stations: one row a station and field, with times as UTC and leads as timedelta64.

    path is a folder as for open_products, a CSV file, or a list of these.
    """
    files = [f for p in _as_list(path) for f in ([Path(p)] if Path(p).is_file() else _in_inits(Path(p), "*_stations.csv"))]
    if not files:
        raise FileNotFoundError(f"no *_stations.csv in {path}: publish them with `ensemble predict --stations LIST`")
    table = pd.concat(
        [pd.read_csv(f, parse_dates=["init", "valid"], dtype={"station_id": str, "station_name": str}) for f in files], ignore_index=True
    )
    table["lead"] = pd.to_timedelta(table["lead_h"], unit="h")
    return table


def _as_list(path: PathLike | Sequence[PathLike]) -> list[PathLike]:
    return [path] if isinstance(path, (str, os.PathLike)) else list(path)


def _in_inits(path: Path, pattern: str) -> list[Path]:
    """Files in the folders of published initialisations at or below a path."""
    folders = (
        [path]
        if (path / _MANIFEST).is_file()
        else sorted(p.parent for p in path.glob(f"*/{_MANIFEST}") if _INIT_FOLDER.fullmatch(p.parent.name))
    )
    return [f for folder in folders for f in sorted(folder.glob(pattern))]


def _files(path: Path, format: Format | None, stations: bool) -> list[Path]:
    """Files of one format. A store of Zarr version 3 counts only if there is none of version 2."""
    if path.is_file() or path.suffix == ".zarr":
        return [path]
    if stations:
        return _in_inits(path, "*_stations.nc")
    zarr = _in_inits(path, "*.zarr")
    found = {
        "netcdf": [f for f in _in_inits(path, "*.nc") if not f.name.endswith("_stations.nc")],
        "zarr": [f for f in zarr if not f.stem.endswith("_v3")] or zarr,
        "grib2": _in_inits(path, "*.grib2"),
    }
    return found[format] if format else next((files for files in found.values() if files), [])


def _open(path: Path, chunks: Mapping[str, int] | None) -> xr.Dataset:
    """Open one file, with its lead as timedelta64."""
    if path.suffix == ".grib2":
        return _open_grib(path, chunks)
    engine = "zarr" if path.suffix == ".zarr" else "netcdf4"
    ds = xr.open_dataset(path, engine=engine, decode_timedelta=False, chunks=chunks)
    unit = {"hours": "h", "seconds": "s"}[ds[LEAD].attrs.pop("units")]
    lead = pd.to_timedelta(float(ds[LEAD].values), unit=unit).to_timedelta64().astype("timedelta64[ns]")
    return ds.assign_coords({LEAD: ((), lead, ds[LEAD].attrs)})


# Statistics in the names of GRIB2 files, after init, lead and variable.
_GRIB_NAME = re.compile(
    r"\d+_\d+[hm]_(?P<variable>.+?)_(?P<statistic>(?:raw_|ensemble_)?(?:mean|spread)|quantile_\w+|probability_\w+|member)"
)
_NUMBER = r"m?\d+(?:p\d+)?"
_GRIB_COORDINATES = {"time": INIT, "step": LEAD, "valid_time": "time", "isobaricInhPa": "pressure", "number": "realization"}


def _number(text: str) -> float:
    """The number in a name: 273p15 is 273.15, m5 is -5."""
    return float(text.replace("m", "-").replace("p", "."))


def identifier(variable: str) -> str:
    """The name of a variable in NetCDF: t2m for 2t, u10 for 10u."""
    m = re.fullmatch(r"(\d+)([a-z]+)", variable)
    if m is None:
        return variable
    return f"{m[2]}{m[1]}" + ("m" if m[1] == "2" else "")


def _open_grib(path: Path, chunks: Mapping[str, int] | None) -> xr.Dataset:
    """Open a file with one statistic of one variable, as the NetCDF profile `cdo` names and describes it."""
    ds = xr.open_dataset(path, engine="cfgrib", backend_kwargs={"indexpath": ""}, decode_timedelta=True, chunks=chunks)
    (of,) = ds.data_vars
    # Coordinates of a single statistic that do not locate the field are left out.
    keep = [c for c in ds.coords if c in _GRIB_COORDINATES or c in ds.dims or c in ("latitude", "longitude")]
    ds = ds[[of]].reset_coords(drop=True).assign_coords({c: ds[c] for c in keep})
    name = _GRIB_NAME.fullmatch(path.stem)
    if name is None:
        raise ValueError(f"{path}: the name is not INIT_LEAD_VARIABLE_STATISTIC.grib2")
    statistic, variable = name["statistic"], identifier(name["variable"])
    field = ds[of]
    attrs: dict[str, Any] = {k: v for k, v in field.attrs.items() if not str(k).startswith("GRIB_")}
    if statistic != "member" and "number" in field.coords:
        field = field.drop_vars("number")
    field = field.rename({k: v for k, v in _GRIB_COORDINATES.items() if k in field.coords})
    if "pressure" in field.coords and "pressure" not in field.dims:
        field = field.expand_dims("pressure")
    title = variable if statistic == "member" else f"{variable}_{statistic}"
    if m := re.fullmatch(f"quantile_({_NUMBER})", statistic):
        attrs["quantile"] = _number(m[1])
    if m := re.fullmatch(f"probability_(above|below|between)_({_NUMBER})(?:to({_NUMBER}))?", statistic):
        title = f"probability_of_{variable}_{statistic.removeprefix('probability_')}"
        attrs.update(units="1", threshold=[_number(x) for x in m.groups()[1:] if x])
        field = field / 100
    order = [d for d in ("realization", "pressure") if d in field.dims]
    field = field.transpose(*order, ...).expand_dims("time") if "time" in field.coords else field
    return xr.Dataset({title: field.assign_attrs(attrs)})


def _merge(same: list[xr.Dataset]) -> xr.Dataset:
    """One dataset of an initialisation and lead from several files."""
    return same[0] if len(same) == 1 else xr.merge(same, compat="override", join="outer", combine_attrs="drop_conflicts")


# Attributes of arrays of one quantile, event or member, with the part of their name that the array of all has otherwise.
_SERIES = (
    ("quantile", re.compile(rf"_quantile_{_NUMBER}$"), "_quantile"),
    ("threshold", re.compile(rf"_(above|below)_{_NUMBER}"), r"_\1_threshold"),
    ("threshold", re.compile(rf"_between_{_NUMBER}to{_NUMBER}"), "_between_thresholds"),
    ("realization", re.compile(r"_member_\d+$"), ""),
)


def _join(ds: xr.Dataset) -> xr.Dataset:
    """Join arrays of one quantile, event or member, as the profile `cdo` and GRIB2 have them, along an axis.

    The coordinate of events between two limits is the upper one, with bounds, as in the profile `xarray`.
    """
    axes: dict[tuple[tuple[float, ...], ...], str] = {}  # dimensions by their positions, a limit or two each
    for axis, pattern, title in _SERIES:
        series: dict[str, list[tuple[tuple[float, ...], str]]] = {}
        for name, v in ds.data_vars.items():
            if axis in v.attrs and pattern.search(str(name)):
                position = tuple(float(x) for x in np.atleast_1d(v.attrs[axis]))
                series.setdefault(pattern.sub(title, str(name)), []).append((position, str(name)))
        for name, found in series.items():
            found.sort(key=lambda f: f[0][::-1])
            at = tuple(position for position, _ in found)
            if at not in axes:
                taken = sum(dim.startswith(axis) for dim in axes.values())
                axes[at] = axis if taken == 0 else f"{axis}_{taken + 1}"
            dim, ends = axes[at], [position[-1] for position in at]
            arrays = [ds[one] for _, one in found]
            attrs = {k: x for k, x in arrays[0].attrs.items() if k not in (axis, "threshold_units", "ancillary_variables")}
            whole = xr.concat(
                [a.rename(name) for a in arrays],
                dim=pd.Index([int(x) for x in ends] if axis == "realization" else ends, name=dim),
                coords="minimal",
                compat="override",
                join="outer",
                combine_attrs="drop",
            )
            ds = ds.drop_vars([one for _, one in found]).assign({name: whole.transpose("time", dim, ...).assign_attrs(attrs)})
            if len(at[0]) == 2:
                ds[f"{dim}_bnds"] = ((dim, "bnds"), np.array(at))
    return ds


def _with_axes(ds: xr.Dataset) -> xr.Dataset:
    """Replace the axis of one time by the axes of initialisation and lead. Fields without time remain as they are."""
    valid = ds["time"].values.reshape(1, 1)
    attrs = ds["time"].attrs
    fixed = [name for name, v in ds.data_vars.items() if "time" not in v.dims]
    moving = ds.drop_vars(fixed).isel(time=0, drop=True) if "time" in ds.dims else ds.drop_vars([*fixed, "time"])
    moving = moving.expand_dims([INIT, LEAD]).assign_coords(time=((INIT, LEAD), valid, attrs))
    return moving.assign({name: ds[name].drop_vars([INIT, LEAD, "time"], errors="ignore") for name in fixed})


def _concat(parts: Iterable[xr.Dataset], dim: str) -> xr.Dataset:
    """Join parts along a dimension. What only some of them have is missing in the others."""
    return xr.concat(
        list(parts), dim=dim, data_vars="minimal", coords="minimal", compat="override", join="outer", combine_attrs="drop_conflicts"
    )
