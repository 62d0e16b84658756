"""Judges of all fields of real files: ecCodes, cfgrib, netCDF4, xarray, zarr and CDO.

Reads one JSON object a line, a file with the fields that the program found in it, and answers with one JSON object a
line: how many fields each reader compared, and all differences. Nothing here comes from the program: fields are found
by their place in the file, values by the latitude and longitude of each point.

Values are float32 in SI in `values`, each field with the points of its grid: latitudes and longitudes as float64 in
`places`. Missing values are NaN.
"""
import collections
import datetime
import json
import math
import os
import re
import subprocess
import sys
import warnings

replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import cftime
import eccodes as ec
import netCDF4
import numpy as np
import xarray as xr
import zarr
from scipy.spatial import cKDTree

warnings.simplefilter("ignore")

# Units of files as factor, offset and unit of SI; written by hand, after UDUNITS-2.
UNITS = {
    "hPa": (100, 0, "Pa"), "millibars": (100, 0, "Pa"), "mbar": (100, 0, "Pa"), "mb": (100, 0, "Pa"), "hectopascal": (100, 0, "Pa"), "Pascals": (1, 0, "Pa"), "Pascal": (1, 0, "Pa"), "kPa": (1000, 0, "Pa"), "kilopascal": (1000, 0, "Pa"),
    "degC": (1, 273.15, "K"), "celsius": (1, 273.15, "K"), "Celsius": (1, 273.15, "K"), "degreeC": (1, 273.15, "K"), "deg_C": (1, 273.15, "K"), "deg_c": (1, 273.15, "K"), "C": (1, 273.15, "K"), "°C": (1, 273.15, "K"), "deg C": (1, 273.15, "K"),
    "degrees C": (1, 273.15, "K"), "degree_C": (1, 273.15, "K"), "degree_Celsius": (1, 273.15, "K"), "degrees Celsius": (1, 273.15, "K"), "degF": (5 / 9, 273.15 - 32 * 5 / 9, "K"), "F": (5 / 9, 273.15 - 32 * 5 / 9, "K"), "K @ 273.15": (1, 273.15, "K"), "kelvin": (1, 0, "K"), "Kelvin": (1, 0, "K"), "degK": (1, 0, "K"),
    "gpm": (1, 0, "m"), "meters": (1, 0, "m"), "metre": (1, 0, "m"), "km": (1000, 0, "m"), "cm": (0.01, 0, "m"), "mm": (0.001, 0, "m"),
    "knots": (1852 / 3600, 0, "m s-1"), "knot": (1852 / 3600, 0, "m s-1"), "kts": (1852 / 3600, 0, "m s-1"), "kt": (1852 / 3600, 0, "m s-1"), "KT": (1852 / 3600, 0, "m s-1"), "km/h": (1 / 3.6, 0, "m s-1"), "km h-1": (1 / 3.6, 0, "m s-1"), "mph": (0.44704, 0, "m s-1"),
    "m/s": (1, 0, "m s-1"), "m/sec": (1, 0, "m s-1"), "metres/second": (1, 0, "m s-1"), "meter second-1": (1, 0, "m s-1"), "m.s-1": (1, 0, "m s-1"), "m s^-1": (1, 0, "m s-1"),
    "degree C": (1, 273.15, "K"), "degreesC": (1, 273.15, "K"), "Degrees Celsius": (1, 273.15, "K"), "oC": (1, 273.15, "K"), "celcius": (1, 273.15, "K"), "degree_c": (1, 273.15, "K"),
    "Mb": (100, 0, "Pa"), "millibar": (100, 0, "Pa"), "HPa": (100, 0, "Pa"), "mm/day": (1, 0, "mm day-1"), "ms-1": (1, 0, "m s-1"), "m sec-1": (1, 0, "m s-1"), "meters per second": (1, 0, "m s-1"),
    "h": (3600, 0, "s"), "percent": (1, 0, "%"), "(0 - 1)": (1, 0, "1"), "~": (1, 0, "1"), "okta": (0.125, 0, "1"),
}
# Depths of water are amounts where the program has an amount: 1 m is 1000 kg m-2.
WATER = {"m": 1000, "mm": 1, "cm": 10, "inch": 25.4, "in": 25.4, "l m-2": 1, "kg/m2": 1, "kg/m^2": 1, "Kg m-2": 1, "mm of water equivalent": 1, "m of water equivalent": 1000}


def plain(u):
    """m**2 s**-2 of ecCodes is m2 s-2."""
    return re.sub(r"\*\*", "", (u or "").strip())


def conversion(native, si):
    """Factor and offset from a unit of a file to the unit of the program, by the tables here; None if unknown."""
    n = plain(native)
    if si == "kg m-2" and n in WATER:
        return WATER[n], 0
    if n == si:
        return 1, 0
    if si in ("1", "%") and n in ("1", "%", "percent", "", "(0 - 1)", "~"):
        a, b = 0.01 if n in ("%", "percent") else 1, 0.01 if si == "%" else 1
        return a / b, 0
    f = UNITS.get(n)
    if f and f[2] == si:
        return f[:2]
    return None


class File:
    """One file of the program, its fields and their values."""

    def __init__(self, job):
        self.__dict__.update(job)
        self.data = np.fromfile(job["values"], "<f4") if job["fields"] else np.zeros(0, "f4")
        self.grids = np.fromfile(job["places"], "<f8") if job["fields"] else np.zeros(0)
        self.compared, self.differences, self.without, self.trees = collections.Counter(), [], [], {}

    def differ(self, tool, f, what, ours, theirs):
        name = f if isinstance(f, str) else f["name"]
        self.differences.append(dict(tool=tool, field=name, what=what, ours=str(ours), theirs=str(theirs)))

    def skip(self, tool, name, why):
        self.without.append(dict(tool=tool, field=name, what="not read", ours="", theirs=str(why)[:2000]))

    def values_of(self, f):
        return self.data[f["at"] : f["at"] + f["count"]].astype(float)

    def match(self, tool, f, lat, lon):
        """Our points in the order of a reader, or None where the places differ; computed once for each grid."""
        key = (tool, f["place"], lat.size, hash(lat.tobytes()), hash(lon.tobytes()))
        if key not in self.trees:
            n = f["count"]
            ours = self.grids[f["place"] : f["place"] + 2 * n]
            self.trees[key] = None
            # A column that is stored twice is one column here.
            if lat.size < n:
                self.differ(tool, f, "points", n, lat.size)
            else:
                apart, index = cKDTree(sphere(lat, lon)).query(sphere(ours[:n], ours[n:]))
                self.trees[key] = index
                far = math.degrees(apart.max()) if n else 0
                if far > 2e-3:
                    self.differ(tool, f, "place", "", f"{far:.3g} degrees apart")
                if len(set(index)) != n:
                    self.differ(tool, f, "place", n, f"{len(set(index))} different points")
        return self.trees[key]

    def compare_values(self, tool, f, native, theirs, lat, lon):
        """theirs are values in the unit `native`, NaN for missing ones, in the order of lat and lon."""
        self.compared[tool] += 1
        index = self.match(tool, f, np.asarray(lat, float).ravel(), np.asarray(lon, float).ravel())
        if index is None:
            return
        c = conversion(native, f["unit"])
        if f["difference"] and c:
            c = (c[0], 0)
        if c is None:
            self.differ(tool, f, "unit", f["unit"], native)
            return
        ours, theirs = self.values_of(f), np.asarray(theirs, float).ravel()[index] * c[0] + c[1]
        lost = int((np.isnan(ours) != np.isnan(theirs)).sum())
        if lost:
            self.differ(tool, f, "missing", int(np.isnan(ours).sum()), int(np.isnan(theirs).sum()))
        both = ~np.isnan(ours) & ~np.isnan(theirs)
        if both.any():
            # float32 here; packed numbers of a reader may be scaled in float32 too.
            allowed = 4 * 2.0**-24 * max(np.abs(ours[both]).max(), np.abs(theirs[both]).max(), abs(c[1]))
            worst = np.abs(ours[both] - theirs[both]).max()
            if worst > allowed:
                self.differ(tool, f, "value", f"tolerance {allowed:.3g}", f"{worst:.3g} apart")

    def compare(self, tool, f, what, theirs, ours):
        if theirs is not None and theirs != ours:
            self.differ(tool, f, what, ours, theirs)


def sphere(lat, lon):
    la, lo = np.radians(lat), np.radians(lon)
    return np.column_stack([np.cos(la) * np.cos(lo), np.cos(la) * np.sin(lo), np.sin(la)])


def text(t):
    return None if t is None else t.strftime("%Y-%m-%dT%H:%M:%S")


# ecCodes

METHODS = {"instant": "", "accum": "sum", "avg": "mean", "max": "maximum", "min": "minimum"}


def get(h, key, kind=None):
    try:
        return ec.codes_get(h, key, kind)
    except ec.CodesInternalError:
        return None


def level_of(h):
    kind = get(h, "typeOfLevel", str)
    if get(h, "editionNumber") == 2:
        def surface(n):
            s, v = get(h, f"scaleFactorOf{n}FixedSurface", int), get(h, f"scaledValueOf{n}FixedSurface", int)
            return None if v is None or v == 2**31 - 1 or v == 2**32 - 1 or ec.codes_is_missing(h, f"scaledValueOf{n}FixedSurface") else v * 10.0**-s
        first, second = get(h, "typeOfFirstFixedSurface", int), get(h, "typeOfSecondFixedSurface", int)
        values = [surface("First")] + ([surface("Second")] if second == first else [])
        word, scale = {100: ("hPa", 100), 103: ("m", 1), 106: ("depth", 1)}.get(first, (None, 1))
    else:
        first = get(h, "indicatorOfTypeOfLevel", int)
        number = get(h, "levelType", int) or first
        values = [get(h, "level", float)]
        word, scale = {"isobaricInhPa": ("hPa", 1), "isobaricInPa": ("hPa", 100), "heightAboveGround": ("m", 1), "depthBelowLand": ("depth", 100), "depthBelowLandLayer": ("depth", 100)}.get(kind, (None, 1))
        if kind == "depthBelowLandLayer":
            values = [get(h, "topLevel", float), get(h, "bottomLevel", float)]
    if word is None or None in values:
        return None
    values = sorted(v / scale for v in values)
    words = "-".join(f"{v:.10g}" for v in dict.fromkeys(values))
    return {"hPa": words + "hPa", "m": words + "m", "depth": f"depth{words}m"}[word]


def eccodes_of(file):
    messages = {}
    ec.codes_grib_multi_support_on()  # cfgrib ends it
    with open(file.path, "rb") as stream:
        while True:
            try:
                h = ec.codes_grib_new_from_file(stream)
            except ec.CodesInternalError as e:
                file.skip("ecCodes", "", e)
                break
            if h is None:
                break
            messages.setdefault(int(ec.codes_get(h, "offset")), []).append(h)
    file.compare("ecCodes", "", "messages", len(messages), file.messages)
    for f in file.fields:
        hs = messages.get(f["offset"])
        if not hs or len(hs) < f["sub"]:
            file.differ("ecCodes", f, "message", f["offset"], "none at this place")
            continue
        h = hs[f["sub"] - 1]
        try:
            eccodes_field(file, f, h)
        except ec.CodesInternalError as e:
            file.skip("ecCodes", f["name"], e)
    for hs in messages.values():
        for h in hs:
            ec.codes_release(h)


places = {}
# Short names that state a statistic, which is a property of its own in the program, and those of NCEP.
SHORT = {"10fg3": "10fg", "10fg6": "10fg", "max_i10fg": "10fg", "i10fg": "10fg", "tmax": "2t", "tmin": "2t", "max_2t": "2t", "min_2t": "2t", "mx2t": "2t", "mn2t": "2t", "avg_2t": "2t", "avg_t": "t", "prmsl": "msl", "10ws": "10si"}


def eccodes_field(file, f, h):
    tool = "ecCodes"
    day, seconds = get(h, "dataDate", int), 0
    for key, n in (("hour", 3600), ("minute", 60), ("second", 1)):
        seconds += n * (get(h, key, int) or 0)
    init = datetime.datetime(day // 10000, day // 100 % 100, day % 100) + datetime.timedelta(seconds=seconds)
    file.compare(tool, f, "init", text(init), f["init"])
    start, end = step_of(h)
    file.compare(tool, f, "valid", text(init + datetime.timedelta(seconds=end)) if end is not None else None, f["valid"])
    kind = get(h, "stepType", str)
    file.compare(tool, f, "statistic", METHODS.get(kind), f["statistic"])
    if kind != "instant" and start is not None:
        file.compare(tool, f, "interval", end - start, f["interval"])
    number = get(h, "number", int)
    # ECMWF's local sections have the number 0 of one in fields without an ensemble.
    if f["member"] is not None or number is not None and f["product"] == "member" and (get(h, "numberOfForecastsInEnsemble", int) or 0) > 0:
        file.compare(tool, f, "member", number, f["member"])
    level = level_of(h)
    file.compare(tool, f, "level", level, f["level"])
    short = get(h, "shortName", str)
    if short != "unknown" and f["known"]:
        file.compare(tool, f, "quantity", SHORT.get(short, short), f["variable"])
    native = get(h, "units", str)
    ec.codes_set(h, "missingValue", 1e30)
    values = ec.codes_get_values(h)
    values[values == 1e30] = np.nan
    grid = get(h, "md5GridSection", str)
    if grid not in places:
        places[grid] = ec.codes_get_array(h, "latitudes"), ec.codes_get_array(h, "longitudes")
    file.compare_values(tool, f, native if f["product"] != "probability" else "%", values, *places[grid])


def step_of(h):
    """Start and end of the step in seconds."""
    try:
        ec.codes_set(h, "stepUnits", "s")
        return get(h, "startStep", int), get(h, "endStep", int)
    except ec.CodesInternalError:
        return None, None


def cfgrib_of(file):
    """xarray with cfgrib: each of its fields is one of ours with the same times, number and values."""
    import cfgrib

    if not file.whole:
        return
    try:
        sets = cfgrib.open_datasets(file.path, backend_kwargs={"indexpath": ""}, cache=False)
    except Exception as e:
        file.skip("cfgrib", "", f"{type(e).__name__}: {e}")
        return
    ours = collections.defaultdict(list)
    for f in file.fields:
        ours[f["valid"], f["count"]].append((f, np.sort(file.values_of(f))))
    strangers = 0
    for ds in sets:
        for name, v in ds.data_vars.items():
            spatial = [d for d in v.dims if d in ("latitude", "longitude", "x", "y", "values")]
            rest = [d for d in v.dims if d not in spatial]
            for place in np.ndindex(*[v.sizes[d] for d in rest]):
                x = v.isel(dict(zip(rest, place)))
                a = np.sort(np.asarray(x.values, float).ravel())  # cfgrib keeps the order of the file
                if np.isnan(a).all() and not any(np.isnan(b).all() for _, b in ours[valid_text(x), a.size]):
                    continue  # a hole of the block
                file.compared["cfgrib"] += 1
                c = None
                number = int(x.number) if "number" in x.coords and x.number.ndim == 0 else None
                for f, b in ours[valid_text(x), a.size]:
                    c = conversion(v.attrs.get("units"), f["unit"])
                    if c and (number is None or f["member"] in (None, number)) and same(a * c[0] + (0 if f["difference"] else c[1]), b):
                        break
                else:
                    strangers += 1
                    if strangers <= file.skipped:
                        continue
                    file.differ("cfgrib", f"{name} {valid_text(x)} number {number}", "field", "none", f"mean {np.nanmean(a):.6g}")


def valid_text(x):
    return str(np.asarray(x.valid_time.values).astype("datetime64[s]")) if "valid_time" in x.coords and x.valid_time.ndim == 0 else None


def same(a, b):
    """Equal sorted values."""
    def close(a, b):
        return np.allclose(a, b, rtol=1e-6, atol=1e-6 * max(np.nanmax(np.abs(a), initial=0), 1e-30), equal_nan=True)
    return close(a[:1], b[:1]) and close(a, b)


# NetCDF and Zarr

INIT = ("forecast_reference_time", "reference_time", "init_time", "init", "initial_time", "forecast_init_time", "reftime")
LEAD = ("forecast_period", "step", "lead", "lead_time", "prediction_timedelta", "leadtime", "forecast_hour")
MEMBER = ("realization", "number", "member", "ensemble", "ensemble_member", "ens", "realisation")


class Arrays:
    """A file or store by one reader: attributes, dimensions and unpacked values of its variables."""

    def __init__(self, path, tool):
        self.tool, self.path, self.sets, self.kept = tool, path, {}, {}

    def group(self, name):
        if name not in self.sets:
            if self.tool == "netCDF4":
                ds = netCDF4.Dataset(self.path)
                self.sets[name] = ds[name] if name else ds
            else:
                kw = dict(engine="zarr", consolidated=None) if self.tool == "zarr" else dict(engine="netcdf4")
                source = zarr.storage.ZipStore(self.path, mode="r") if self.tool == "zarr" and os.path.isfile(self.path) else self.path
                if name:
                    kw["group"] = name
                self.sets[name] = xr.open_dataset(source, decode_times=False, decode_coords=False, mask_and_scale=True, **kw)
        return self.sets[name]

    def names(self, group):
        g = self.group(group)
        if self.tool == "netCDF4":
            return list(g.variables)
        return list(g.variables)

    def dims(self, group, name):
        return self.keep(("dims", group, name), lambda: self.dims_of(group, name))

    def attrs(self, group, name):
        return self.keep(("attrs", group, name), lambda: self.attrs_of(group, name))

    def coordinate(self, group, name):
        """All values of a coordinate."""
        return self.keep(("values", group, name), lambda: self.values(group, name))

    def keep(self, key, read):
        if key not in self.kept:
            self.kept[key] = read()
        return self.kept[key]

    def dims_of(self, group, name):
        v = self.group(group).variables[name]
        return list(v.dimensions) if self.tool == "netCDF4" else list(v.dims)

    def attrs_of(self, group, name):
        v = self.group(group).variables[name]
        if self.tool == "netCDF4":
            return {k: v.getncattr(k) for k in v.ncattrs()}
        return {**v.attrs, **{k: e for k, e in v.encoding.items() if k in ("scale_factor", "add_offset", "coordinates", "grid_mapping")}}

    def values(self, group, name, key=...):
        v = self.group(group).variables[name]
        x = v[key]
        if self.tool == "netCDF4":
            return np.ma.filled(np.ma.asarray(x).astype(float), np.nan)
        return np.asarray(x.values, float)


def decode(numbers, attrs, name):
    times = cftime.num2date(numbers, attrs["units"], attrs.get("calendar", "standard"), only_use_cftime_datetimes=True)
    return name, attrs, times


def rounded(t):
    """A time to the second, as datetime."""
    t = t + datetime.timedelta(microseconds=500000)
    return datetime.datetime(t.year, t.month, t.day, t.hour, t.minute, t.second)


def span(v, units):
    n = re.match(r"^([0-9.]+ +)?([a-z]+)$", (units or "").strip().lower())
    if not n:
        return None
    unit = {"s": 1, "sec": 1, "min": 60, "h": 3600, "hr": 3600, "d": 86400}.get(n[2]) or {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "nanosecond": 1e-9}.get(n[2].rstrip("s"))
    return None if unit is None else datetime.timedelta(seconds=round(float(v) * float(n[1] or 1) * unit))


class Variable:
    """What a reader knows about one variable: coordinates by their meaning."""

    def __init__(self, arrays, group, name):
        self.a, self.group, self.name = arrays, group, name
        self.dims, self.attrs = arrays.dims(group, name), arrays.attrs(group, name)
        self.time = self.init = self.lead = self.member = self.lat = self.lon = self.y = self.x = None
        listed = str(self.attrs.get("coordinates", "")).split()
        for c in arrays.names(group):
            d, at = arrays.dims(group, c), arrays.attrs(group, c)
            if c == name or not set(d) <= set(self.dims) or not (c in self.dims or c in listed or not d or at.get("standard_name")):
                continue
            std, low, units = at.get("standard_name", ""), c.lower(), str(at.get("units", ""))
            def put(slot):
                if getattr(self, slot) is None or std:
                    setattr(self, slot, c)
            if std == "forecast_reference_time" or not std and low in INIT:
                put("init")
            elif std == "forecast_period" or not std and low in LEAD and " since " not in units:
                put("lead")
            elif std == "time" or not std and " since " in units:
                put("time")
            elif std == "realization" or not std and low in MEMBER:
                put("member")
            elif std in ("projection_y_coordinate", "grid_latitude"):
                put("y")
            elif std in ("projection_x_coordinate", "grid_longitude"):
                put("x")
            elif std == "latitude" or not std and (low in ("lat", "latitude", "xlat", "clat") or units.startswith("degrees_north")):
                put("lat")
            elif std == "longitude" or not std and (low in ("lon", "longitude", "xlong", "clon") or units.startswith("degrees_east")):
                put("lon")

    def at(self, coord, place):
        """Value of a coordinate at an index of the variable."""
        key = tuple(place[self.dims.index(d)] for d in self.a.dims(self.group, coord))
        return self.a.coordinate(self.group, coord)[key if key else ...]

    def when(self, coord, place, pick=None):
        at = self.a.attrs(self.group, coord)
        x = self.at(coord, place)
        if pick is not None and at.get("bounds") in self.a.names(self.group):
            b = self.a.coordinate(self.group, at["bounds"])
            key = tuple(place[self.dims.index(d)] for d in self.a.dims(self.group, coord))
            x = pick(b[key] if key else b)
        if np.isnan(x):
            return None
        return rounded(cftime.num2date(float(x), at["units"], at.get("calendar", "standard"), only_use_cftime_datetimes=True))

    def times(self, place, statistic):
        """Initialisation, valid time (the end of an interval) and length in seconds; None for what is not known."""
        init = self.when(self.init, place) if self.init else None
        valid = self.when(self.time, place, np.max if statistic else None) if self.time else None
        length = None
        if self.time and statistic and self.a.attrs(self.group, self.time).get("bounds"):
            first = self.when(self.time, place, np.min)
            length = int((valid - first).total_seconds()) if first else None
        if self.lead:
            period = span(self.at(self.lead, place), self.a.attrs(self.group, self.lead).get("units"))
            if period is None:
                pass
            elif valid is None and init is not None:
                valid = init + period
            elif init is None and valid is not None:
                own = set(self.a.dims(self.group, self.lead)) - set(self.a.dims(self.group, self.time))
                if own or self.lead == "prediction_timedelta":
                    init, valid = valid, valid + period
                elif not statistic:
                    init = valid - period
        elif init is None:
            init = valid
        return init, valid, length


def arrays_of(file, tool):
    a = Arrays(file.path, tool)
    seen = {}
    for f in file.fields:
        where = f["group"], f["var"]
        try:
            if where not in seen:
                seen[where] = Variable(a, *where)
            v = seen[where]
            key = tuple(slice(s, s + c) for s, c in zip(f["start"], f["count_of"]))
            place = list(f["start"])
            f["difference"] |= "difference" in str(v.attrs.get("units_metadata", ""))
            if v.time or v.init:
                init, valid, length = v.times(place, f["statistic"])
                file.compare(tool, f, "valid", text(valid), f["valid"])
                if not f["statistic"]:
                    file.compare(tool, f, "init", text(init), f["init"])
                if length is not None:
                    file.compare(tool, f, "interval", length, f["interval"])
            if v.member and f["product"] == "member":
                x = v.at(v.member, place)
                file.compare(tool, f, "member", None if np.isnan(x) else int(x), f["member"])
            if v.lat is None or v.lon is None:
                # Points of a projection without 2-D coordinates: metres, as if 1e5 of them were a degree.
                v.lat, v.lon = v.y, v.x
            if v.lat == v.y:
                f["place"] = f["axes"]
            lat, lon = horizontal(v, f)
            x = a.values(f["group"], f["var"], key)
            file.compare_values(tool, f, v.attrs.get("units", ""), x, lat, lon)
        except Exception as e:
            file.skip(tool, f["name"], f"{type(e).__name__}: {e}")


def horizontal(v, f):
    """Latitude and longitude of each point of the field, in the order of its dimensions."""
    lat, lon = v.a.coordinate(v.group, v.lat), v.a.coordinate(v.group, v.lon)
    if "rad" in str(v.a.attrs(v.group, v.lat).get("units", "")):
        lat, lon = np.degrees(lat), np.degrees(lon)
    if v.lat == v.y:
        lat, lon = lat / 1e5, lon / 1e5
    dl, dn = v.a.dims(v.group, v.lat), v.a.dims(v.group, v.lon)
    rest = [d for d, n in zip(v.dims, f["count_of"]) if d in dl or d in dn]
    both = []
    # A column that is stored twice is not part of the field.
    lat, lon = [x[tuple(slice(f["start"][v.dims.index(q)], f["start"][v.dims.index(q)] + f["count_of"][v.dims.index(q)]) for q in d)] for x, d in ((lat, dl), (lon, dn))]
    for x, d in ((lat, dl), (lon, dn)):
        order = [q for q in rest if q in d]
        x = np.transpose(x, [d.index(q) for q in order]) if x.ndim > 1 else x
        both.append(np.broadcast_to(x.reshape([x.shape[order.index(q)] if q in order else 1 for q in rest]), [f["count_of"][v.dims.index(q)] for q in rest]))
    return both


# CDO

RECORD = re.compile(r"^ *\d+ : (\S+) (\S+) +(\S+) +(\d+) +(\d+) : *(.*?) : (\S+)")


def cdo_of(file):
    """cdo infon: each of its records is one of our fields: valid time, missing values, extremes as it prints them."""
    p = subprocess.run(["cdo", "-s", "infon", os.path.basename(file.path)], cwd=os.path.dirname(file.path), capture_output=True, text=True, timeout=300)
    if p.returncode != 0:
        file.skip("CDO", "", " ".join(p.stderr.split()) or f"exit {p.returncode}")
        return
    ours = collections.defaultdict(list)
    for f in file.fields:
        x = file.values_of(f)
        # CDO has the time of the file: of an interval its start, middle or end, with leads as levels the initialisation.
        times = {f["valid"], f["init"]} | ({"any"} if f["statistic"] or f["init"] < "0002" else set())
        for when in times:
            ours[when].append((f, x[~np.isnan(x)]))
    variables = {f["var"] for f in file.fields if f["var"]}
    strangers = 0  # of the messages that the program does not use
    for line in p.stdout.splitlines():
        m = RECORD.match(line)
        if not m:
            continue
        file.compared["CDO"] += 1
        day, clock, level, size, missing, numbers, name = m.groups()
        if variables and name not in variables:
            continue  # a coordinate, or a variable that is unused here
        numbers = numbers.replace("nan", "").split()
        when = f"{day}T{clock}"
        for f, x in ours[when] + ours["any"]:
            if cdo_same(f, x, int(size), int(missing), [float(n) for n in numbers]):
                break
        else:
            strangers += 1
            if strangers <= file.skipped:
                continue
            file.differ("CDO", f"{name} {when} level {level}", "field", f"{len(ours[when])} fields at this time", line.strip())


def cdo_same(f, x, size, missing, numbers):
    if missing == size or not numbers or not x.size:
        return missing == size and x.size == 0
    native = f["native"] or "1"
    c = conversion(native, f["unit"])
    if c is None:
        return False
    off = 0 if f["difference"] else c[1]
    mine = [(x.min() - off) / c[0], (x.mean() - off) / c[0], (x.max() - off) / c[0]]
    if len(numbers) == 1:  # a field of one value
        numbers, mine = numbers, mine[:1]
    # Five digits are printed. The mean is weighted by area there.
    return all(abs(a - b) <= 1e-4 * max(abs(a), abs(mine[-1] - mine[0]), 1e-30) for k, (a, b) in enumerate(zip(numbers, mine)) if k != 1)


TOOLS = {"GRIB": [eccodes_of, cfgrib_of, cdo_of], "NetCDF": [lambda f: arrays_of(f, "netCDF4"), lambda f: arrays_of(f, "xarray"), cdo_of], "Zarr": [lambda f: arrays_of(f, "zarr")]}

print(json.dumps({"tools": {"ecCodes": ec.codes_get_api_version(), "netCDF4": netCDF4.__version__, "xarray": xr.__version__}}), file=replies, flush=True)
for line in sys.stdin:
    file = File(json.loads(line))
    for tool in TOOLS[file.format] if file.fields else []:
        try:
            tool(file)
        except Exception as e:
            import traceback

            traceback.print_exc()
            file.skip(getattr(tool, "__name__", "reader"), "", f"{type(e).__name__}: {e}")
    print(json.dumps(dict(compared=file.compared, differences=file.differences, without=file.without)), file=replies, flush=True)
