"""Judges of published files: xarray, cfgrib and netCDF4, warnings being errors.

Reads one JSON request a line, {"job": name, "path": file}, and answers with one
JSON object, {"result": ...} or {"error": text}. One process serves all tests,
because importing the readers takes seconds. Anything that a library prints to
standard error is an error too.
"""
import json
import os
import sys
import tempfile
import traceback
import warnings

replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import numpy as np
import cfgrib
import netCDF4
import xarray as xr


def number(v):
    """Numbers as they are, times as seconds since 1970, periods as seconds."""
    v = np.asarray(v)
    if v.dtype.kind == "M":
        return v.astype("datetime64[ns]").astype("int64") / 1e9
    if v.dtype.kind == "m":
        return v.astype("timedelta64[ns]").astype("int64") / 1e9
    return v.astype(float)


def plain(attrs):
    return {k: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for k, v in attrs.items()}


def mark(v, lat, lon):
    """Values at a place of a lat-lon grid, along the remaining dimensions."""
    if "latitude" not in v.dims or "longitude" not in v.dims:
        return []
    lats, lons = v.latitude.values, v.longitude.values
    j, i = abs(lats - lat).argmin(), abs((lons - lon + 180) % 360 - 180).argmin()
    if abs(lats[j] - lat) > 1e-3 or abs((lons[i] - lon + 180) % 360 - 180) > 1e-3:
        return []
    values = number(v.isel(latitude=int(j), longitude=int(i)).values).ravel().tolist()
    return [None if np.isnan(x) else x for x in values]


def view(path):
    """All that xarray sees: dimensions, coordinates, attributes, the two marks."""
    kw = dict(engine="cfgrib", backend_kwargs={"indexpath": ""}) if path.endswith(".grib2") else {}
    with xr.open_dataset(path, **kw) as ds:
        ds.load()
    return dict(
        Dims={k: int(n) for k, n in ds.sizes.items()},
        Attrs=plain(ds.attrs),
        Coords={k: number(c.values).tolist() for k, c in ds.coords.items() if c.dims == (k,)},
        Scalars={k: float(number(c.values)) for k, c in ds.coords.items() if c.dims == ()},
        Vars={
            k: dict(
                Dims=list(v.dims),
                Attrs=plain(v.attrs),
                Coords=sorted(v.coords),
                NE=mark(v, 45, 90),
                SW=mark(v, -30, 350),
                Nulls=int(np.isnan(v.values).sum()),
                Sum=float(np.nansum(v.values.astype(float))),
                Corner=float(v.values.ravel()[0]),
            )
            for k, v in ds.data_vars.items()
        },
    )


def storage(path):
    """How netCDF stores each variable: format, types, chunks, compression."""
    with netCDF4.Dataset(path) as ds:
        ds.set_auto_mask(False)
        return dict(
            Format=ds.data_model,
            Vars={
                k: dict(
                    Type=str(v.dtype),
                    Dims=list(v.dimensions),
                    Chunks=[] if v.chunking() in (None, "contiguous") else list(v.chunking()),
                    Level=(v.filters() or {}).get("complevel", 0),
                    Shuffle=bool((v.filters() or {}).get("shuffle", False)),
                    Fill="_FillValue" in v.ncattrs(),
                    Attrs=plain({n: v.getncattr(n) for n in v.ncattrs() if n != "_FillValue"}),
                    First=float(np.asarray(v[...]).ravel()[0]),
                    Last=float(np.asarray(v[...]).ravel()[-1]),
                )
                for k, v in ds.variables.items()
            },
        )


def agree(path):
    """Whether a store has all that a NetCDF file beside it has; its name is its store's
    with another end."""
    with xr.open_dataset(path) as nc, xr.open_zarr(path[:-3] + ".zarr") as store:
        nc, store = nc.load(), store.load()
        missing = {k: v for k, v in nc.attrs.items() if not np.array_equal(store.attrs.get(k), v)}
        xr.testing.assert_identical(nc.assign_attrs(store.attrs), store)
        types = [k for k in nc.variables if nc[k].dtype != store[k].dtype]
        return dict(Missing=plain(missing), Types=types, Fields=len(store.data_vars))


jobs = {"view": view, "storage": storage, "agree": agree}
printed = tempfile.TemporaryFile()
os.dup2(printed.fileno(), 2)
warnings.simplefilter("error")
print(json.dumps({"result": {"xarray": xr.__version__, "cfgrib": cfgrib.__version__}}), file=replies, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    start = os.fstat(2).st_size
    try:
        reply = {"result": jobs[request["job"]](request["path"])}
    except Exception:
        reply = {"error": traceback.format_exc()}
    sys.stderr.flush()
    printed.seek(start)
    if text := printed.read().decode():
        reply = {"error": "printed on standard error: " + text}
    print(json.dumps(reply), file=replies, flush=True)
