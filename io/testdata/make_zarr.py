"""Zarr stores as archives lay them out, and NetCDF files of the same data, written by
xarray: make_zarr.py DATA OUT, with DATA the folder of the real data.

The weather is made up but for "era5", which has fields of the ERA5 ensemble as they are.
"""

import pathlib
import shutil
import sys
import zipfile

import numpy as np
import xarray as xr
import zarr

data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
work = out / "work"
shutil.rmtree(work, ignore_errors=True)
work.mkdir()
zarr.config.set({"array.write_empty_chunks": True})

rng = np.random.default_rng(5)
times = np.array(["2020-01-01T00", "2020-01-01T12", "2020-01-02T00"], "M8[ns]")
leads = np.array([0, 6, 12, 24], "m8[h]").astype("m8[ns]")
lat = np.arange(-90.0, 91.0, 30.0)
lon = np.arange(0.0, 360.0, 45.0)
level = np.array([500, 850])
number = np.arange(3)

# As WeatherBench 2 has ensemble forecasts: time is the start, latitude ascends, longitude
# comes before it, levels have no unit, 6-hourly leads.
t = (250 + 30 * rng.random((3, 3, 4, 2, 8, 7))).astype("f4")
u10 = (20 * rng.random((3, 3, 4, 8, 7)) - 10).astype("f4")
u10[0, 0, 0, 0, 0] = np.nan
wb = xr.Dataset(
    {"temperature": (("number", "time", "prediction_timedelta", "level", "longitude", "latitude"), t, {"units": "K"}),
     "10m_u_component_of_wind": (("number", "time", "prediction_timedelta", "longitude", "latitude"), u10, {"units": "m s**-1"})},
    {"time": times, "prediction_timedelta": leads, "level": level, "number": number, "longitude": lon, "latitude": lat})
chunks = {"temperature": {"chunks": (1, 2, 3, 2, 8, 7)}, "10m_u_component_of_wind": {"chunks": (3, 1, 4, 4, 7)}}
wb.to_zarr(work / "wb2.zarr", zarr_format=2, encoding=chunks, consolidated=True)
shards = {"temperature": {"chunks": (1, 1, 1, 1, 4, 7), "shards": (1, 3, 4, 2, 8, 7)}, "10m_u_component_of_wind": chunks["10m_u_component_of_wind"]}
other = wb.transpose("latitude", "longitude", "level", "prediction_timedelta", "time", "number")
shards3 = {"temperature": {"chunks": (7, 4, 1, 1, 3, 3), "shards": (7, 8, 2, 4, 3, 3)}}
other.to_zarr(work / "wb3.zarr", zarr_format=3, encoding=shards3, consolidated=True)

# The same in CF, as NetCDF: every start has its own valid times.
cf = wb.rename({"time": "forecast_reference_time", "prediction_timedelta": "forecast_period", "number": "realization"})
cf["level"].attrs = {"units": "hPa", "standard_name": "air_pressure"}
cf["forecast_reference_time"].attrs = {"standard_name": "forecast_reference_time"}
cf["forecast_period"].attrs = {"standard_name": "forecast_period"}
cf["realization"].attrs = {"standard_name": "realization"}
cf["latitude"].attrs = {"units": "degrees_north"}
cf["longitude"].attrs = {"units": "degrees_east"}
cf.to_netcdf(work / "wb.nc", encoding={"forecast_reference_time": {"units": "hours since 2020-01-01", "dtype": "i4"}, "forecast_period": {"units": "hours", "dtype": "i4"}})

# Packed numbers with a fill value, in both versions and in NetCDF. The member dimension is
# called realization.
tp = (5 * rng.random((3, 2, 7, 8))).astype("f4")
tp[1, 0, 3, 2:4] = np.nan
packed = xr.Dataset({"t2m": (("time", "realization", "latitude", "longitude"), 270 + tp, {"units": "K", "standard_name": "air_temperature"})},
                    {"time": times, "realization": ("realization", [0, 1], {"standard_name": "realization"}),
                     "latitude": ("latitude", lat, {"units": "degrees_north"}), "longitude": ("longitude", lon, {"units": "degrees_east"}), "height": ((), 2.0, {"units": "m", "standard_name": "height"})})
encoding = {"t2m": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 270.0, "_FillValue": -32767}, "time": {"units": "hours since 2020-01-01", "dtype": "i4"}}
packed.to_zarr(work / "packed2.zarr", zarr_format=2, encoding=encoding)
packed.to_zarr(work / "packed3.zarr", zarr_format=3, encoding=encoding)
packed.to_netcdf(work / "packed.nc", encoding=encoding)

# Fields of the ERA5 ensemble, south to north.
era5 = xr.open_dataset(data / "era5-eda" / "era5-eda_z-t_20170101T00-20170102T00.grib", engine="cfgrib", backend_kwargs={"indexpath": ""})
era5 = era5.isel(number=slice(0, 2), time=slice(0, 1)).isel(latitude=slice(None, None, -1)).drop_vars(["step", "valid_time"])
for v in era5.variables.values():
    v.attrs = {k: a for k, a in v.attrs.items() if k in ("units", "standard_name", "long_name") and not (k == "standard_name" and a == "forecast_reference_time")}
    v.encoding = {}
era5 = era5.rename({"isobaricInhPa": "level"})
era5.to_zarr(work / "era5.zarr", zarr_format=2)

archive = zipfile.ZipFile(out / "zarr.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9)
for path in sorted(work.rglob("*")):
    if path.is_file():
        info = zipfile.ZipInfo(str(path.relative_to(work)), (2000, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, path.read_bytes())
archive.close()
print(era5)
shutil.rmtree(work)
