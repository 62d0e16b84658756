"""Writes the station and seasonal sets as CF NetCDF that `ensemble train` reads.

    build/venv/bin/python experiments/stations/make_netcdf.py ../shared/data OUT

OUT/NAME_fc.nc has forecasts (time, realization, station), OUT/NAME_an.nc the observations.
A time is the valid time; a missing pair is a missing value.
"""
import csv
import datetime as dt
import pathlib
import sys

import netCDF4
import numpy as np

EPOCH = dt.datetime(1970, 1, 1)
KELVIN = 273.15


def seconds(times):
    return np.array([(t - EPOCH).total_seconds() for t in times])


def write(out, name, times, lead, places, variable, forecast, observed, obs_times=None, over=None):
    """over: method and hours of the interval that ends at the time, as ("sum", 24). lead: hours, one for all. places: latitudes, longitudes. variable: short name,
    standard name (None for none), unit. Shape: forecast [time][member][place], observed [time][place]."""
    for kind, values in (("fc", forecast), ("an", observed)):
        of = times if kind == "fc" or obs_times is None else obs_times
        with netCDF4.Dataset(out / f"{name}_{kind}.nc", "w") as d:
            d.Conventions = "CF-1.8"
            d.createDimension("time", len(of))
            d.createDimension("station", len(places[0]))
            t = d.createVariable("time", "f8", ("time",))
            t.setncatts({"units": "seconds since 1970-01-01", "standard_name": "time"})
            t[:] = seconds(of)
            if over:
                d.createDimension("bnds", 2)
                t.bounds = "time_bnds"
                d.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = seconds(of)[:, None] - 3600 * np.array([[over[1], 0]])
            dims, coordinates = ("time", "station"), "latitude longitude"
            if kind == "fc":
                r = d.createVariable("forecast_reference_time", "f8", ("time",))
                r.setncatts({"units": "seconds since 1970-01-01", "standard_name": "forecast_reference_time"})
                r[:] = seconds(of) - 3600 * lead
                d.createDimension("realization", values.shape[1])
                m = d.createVariable("realization", "i4", ("realization",))
                m.setncatts({"units": "1", "standard_name": "realization"})
                m[:] = np.arange(values.shape[1])
                dims, coordinates = ("time", "realization", "station"), "forecast_reference_time " + coordinates
            for k, (axis, unit) in enumerate((("latitude", "degrees_north"), ("longitude", "degrees_east"))):
                c = d.createVariable(axis, "f8", ("station",))
                c.setncatts({"units": unit, "standard_name": axis})
                c[:] = places[k]
            short, standard, unit = variable
            v = d.createVariable(short, "f4", dims, fill_value=netCDF4.default_fillvals["f4"])
            v.setncatts({"units": unit, "coordinates": coordinates})
            if standard:
                v.standard_name = standard
            if over:
                v.cell_methods = f"time: {over[0]}"
            v[:] = np.ma.masked_invalid(values)


def table(path, time, form, obs, members):
    """Rows of a CSV file as times, observations and members."""
    with open(path) as f:
        rows = list(csv.DictReader(f))
    names = [n for n in rows[0] if n.startswith(members)]
    number = lambda r, n: float(r[n]) if r[n] not in ("", "NA") else np.nan
    return ([dt.datetime.strptime(r[time], form) for r in rows],
            np.array([[number(r, obs)] for r in rows]),
            np.array([[[number(r, n)] for n in names] for r in rows]))


def innsbruck(data, out):
    place = ([47.26], [11.36])
    t, y, x = table(data / "stations/innsbruck_tmin_gefs_18-30h.csv", "time", "%Y-%m-%d %H:%M:%S", "temp", "tempfc.")
    write(out, "tmin", t, 30, place, ("t2m", "air_temperature", "K"), x + KELVIN, y + KELVIN, over=("minimum", 12))
    t, y, x = table(data / "stations/innsbruck_rain_gefs_day5-8.csv", "date", "%Y-%m-%d", "rain", "rainfc.")
    write(out, "rain", t, 192, place, ("tp", None, "mm"), x, y, over=("sum", 72))
    last = [i for i, s in enumerate(t) if s >= dt.datetime(2010, 1, 10)]
    write(out, "rain_test", [t[i] for i in last], 192, place, ("tp", None, "mm"), x[last], y[last], over=("sum", 72))


def summer(data, out):
    t, y, x = table(data / "stations/europe_summer_t2m_cfsv2_24_members.csv", "year", "%Y", "obs", "Member_")
    t = [s.replace(month=7, day=16) for s in t]
    write(out, "summer", t, 2160, ([50.0], [10.0]), ("t2m", "air_temperature", "K"), x + KELVIN, y + KELVIN)


def washington(data, out):
    """Dates by all stations; absent pairs are missing values."""
    with netCDF4.Dataset(data / "stations/uw_t2m_48h_2004.nc") as d:
        hours, ids = d["time"][:].data, netCDF4.chartostring(d["station"][:])
        lat, lon = d["latitude"][:].data, d["longitude"][:].data
        fc, obs = d["t2m_forecast"][:].filled(np.nan), d["t2m_observation"][:].filled(np.nan)
    dates, at = np.unique(hours, return_inverse=True)
    names, first, station = np.unique([f"{i} {a:.4f} {b:.4f}" for i, a, b in zip(ids, lat, lon)], return_index=True, return_inverse=True)
    x = np.full((len(dates), fc.shape[1], len(names)), np.nan)
    y = np.full((len(dates), len(names)), np.nan)
    x[at, :, station], y[at, station] = fc, obs
    times = [dt.datetime(2004, 1, 1) + dt.timedelta(hours=float(h)) for h in dates]
    write(out, "washington", times, 48, (lat[first], lon[first]), ("t2m", "air_temperature", "K"), x, y)


def mjo(data, out, days=(5, 10, 15, 20)):
    """The index of the Madden-Julian oscillation, mean of the day that ends after the given number of days."""
    with netCDF4.Dataset(data / "seasonal/geos_s2s_rmm1_to_2010.nc") as d:
        starts = netCDF4.num2date(d["forecast_reference_time"][:], d["forecast_reference_time"].units, only_use_cftime_datetimes=False)
        leads, fc = d["lead"][:].data, d["rmm1"][:].filled(np.nan)
        when = netCDF4.num2date(d["time"][:], d["time"].units, only_use_cftime_datetimes=False)
        index = {(t.year, t.month, t.day): v for t, v in zip(when, d["rmm1_observed"][:].filled(np.nan))}
    for day in days:
        x = fc[:, :, np.flatnonzero(leads == day - 0.5)[0]][:, :, None]
        times = [dt.datetime(s.year, s.month, s.day, s.hour) + dt.timedelta(days=day - 0.5) for s in starts]
        y = np.array([[index.get((t.year, t.month, t.day), np.nan)] for t in times])
        write(out, f"mjo{day}", times, 24 * day - 12, ([0.0], [80.0]), ("rmm1", None, "1"), x, y)


def iberia(data, out):
    """Daily winter rain, mm; the reanalysis at the nearest point of the forecasts' grid, forecasts times
    four, as a day has four of their amounts (the set's README)."""
    with netCDF4.Dataset(data / "seasonal/cfs_pr_daily_iberia_9_lagged_members_1983-1996.nc") as d:
        times = netCDF4.num2date(d["time"][:], d["time"].units, only_use_cftime_datetimes=False)
        lat, lon = d["latitude"][:].data, d["longitude"][:].data
        fc = 4 * d["pr"][:].filled(np.nan)
    with netCDF4.Dataset(data / "seasonal/ncep_pr_daily_iberia_1983-1996.nc") as d:
        near = [[np.abs(d[n][:].data - v).argmin() for v in of] for n, of in (("latitude", lat), ("longitude", lon))]
        obs = np.maximum(86400 * d["pr"][:].filled(np.nan), 0)[:, near[0]][:, :, near[1]]
    times = [dt.datetime(t.year, t.month, t.day) for t in times]
    y, x = np.meshgrid(lat, lon, indexing="ij")
    n = len(times)
    write(out, "iberia", times, 1440, (y.ravel(), x.ravel()), ("tp", None, "mm"),
          fc.transpose(1, 0, 2, 3).reshape(n, fc.shape[0], -1), obs.reshape(n, -1), over=("sum", 24))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    for make in (innsbruck, summer, washington, mjo, iberia):
        make(data, out)
