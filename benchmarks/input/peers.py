#!/usr/bin/env python3
"""What users of Python have to read fields: answers requests for timings.

A line on standard input names a case and a file; the answer is a line of JSON with
the seconds that it took, after imports and with the file in memory:

  cfgrib_open FILE    xarray.open_dataset by cfgrib, its index made anew and not kept
  cfgrib_load FILE    the same, and all values loaded
  netcdf4 FILE        all fields of the variable t by netCDF4-python, one by one
  dated FILE          no timing: makes FILE of nc4.nc beside it, with coordinates

The calls are those of grib_peers.py.  needs: cfgrib xarray netCDF4
"""
import json
import os
import sys
import time

import netCDF4
import xarray


def cfgrib(path, load):
    ds = xarray.open_dataset(path, engine="cfgrib", backend_kwargs={"indexpath": ""})
    if load:
        ds.load()
    ds.close()


def netcdf4(path):
    with netCDF4.Dataset(path) as ds:
        v = ds["t"]
        v.set_auto_maskandscale(False)
        for m in range(v.shape[0]):
            for s in range(v.shape[1]):
                v[m, s]


def dated(path):
    """The fields of nc4.nc as they are, in a file that says where and when they are."""
    with netCDF4.Dataset(os.path.join(os.path.dirname(path), "nc4.nc")) as a, netCDF4.Dataset(path, "w") as b:
        for name, d in a.dimensions.items():
            b.createDimension(name, len(d))
        v = a["t"]
        v.set_auto_maskandscale(False)
        coordinates = dict(
            number=(range(v.shape[0]), dict(standard_name="realization")),
            step=([6 * s for s in range(v.shape[1])], dict(standard_name="forecast_period", units="hours")),
            latitude=([90 - 0.5 * j for j in range(v.shape[2])], dict(standard_name="latitude", units="degrees_north")),
            longitude=([0.5 * i for i in range(v.shape[3])], dict(standard_name="longitude", units="degrees_east")))
        for name, (values, attributes) in coordinates.items():
            c = b.createVariable(name, "f8", (name,))
            c[:] = list(values)
            c.setncatts(attributes)
        start = b.createVariable("start", "i4", ())
        start.setncatts(dict(standard_name="forecast_reference_time", units="hours since 2020-01-01"))
        start[...] = 0
        w = b.createVariable("t", "f4", v.dimensions, zlib=True, complevel=1, shuffle=True, chunksizes=v.chunking())
        w.setncatts(dict(standard_name="air_temperature", units="K", coordinates="start"))
        for m in range(v.shape[0]):
            for s in range(v.shape[1]):
                w[m, s] = v[m, s]


CASES = dict(dated=dated, cfgrib_open=lambda p: cfgrib(p, False), cfgrib_load=lambda p: cfgrib(p, True), netcdf4=netcdf4)

print(json.dumps(dict(xarray=xarray.__version__, netCDF4=netCDF4.__version__)), flush=True)
for line in sys.stdin:
    case, path = line.split(None, 1)
    begin = time.perf_counter()
    CASES[case](path.strip())
    print(json.dumps(dict(seconds=time.perf_counter() - begin)), flush=True)
