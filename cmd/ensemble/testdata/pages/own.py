"""Three files as a person saves them from xarray: own names, degC, a scalar height, members without coordinate, a lead picked
out with isel, and daily rain. Usage: own.py FOLDER INITIALISATIONS"""
import sys

import numpy
import pandas
import xarray

folder, days = sys.argv[1], int(sys.argv[2])
rng = numpy.random.default_rng(1)
lat, lon, members = numpy.linspace(60, 40, 16), numpy.linspace(-10, 20, 24), 6
init = pandas.date_range("2024-01-01", periods=days, freq="1D")
swing = numpy.cumsum(rng.normal(size=(days, 1, 1)), 0) * 0.3
truth = 10 - 0.3 * (lat[:, None] - 50) + swing + 0.3 * rng.normal(size=(days, lat.size, 1)) + 0.3 * rng.normal(size=(days, 1, lon.size))
rain = numpy.maximum(0, truth - 10) * 2


def forecasts(of, bias, width):
    """Members with a bias and errors that grow with the lead of one and two days."""
    shape = (days, members, 2, 1, 1)
    errors = rng.normal(size=shape) * width + rng.normal(size=(days, members, 2, lat.size, lon.size)) * width / 2
    return (of[:, None, None] + bias + errors * numpy.array([1, 1.5])[:, None, None]).astype("f4")


dims = ("init", "member", "lead", "lat", "lon")
archive = xarray.Dataset(
    {"T2M_ens": (dims, forecasts(truth, 1, 0.8), {"units": "degC"}), "rain": (dims, numpy.maximum(0, forecasts(rain, 0, 1.5)), {"units": "mm"})},
    coords={"init": init, "lead": ("lead", [24, 48], {"units": "hours"}), "lat": lat, "lon": lon, "height": 2.0})
archive.isel(lead=0).to_netcdf(f"{folder}/forecasts.nc")

where = {"time": init + pandas.Timedelta("24h"), "lat": lat, "lon": lon}
for name, unit, values in [("T2M", "degC", truth), ("rain_obs", "mm", rain)]:
    file = {"T2M": "temperature.nc", "rain_obs": "rain.nc"}[name]
    xarray.Dataset({name: (("time", "lat", "lon"), values.astype("f4"), {"units": unit})}, coords=where).to_netcdf(f"{folder}/{file}")
