"""Writes invented data as users of other programs have them, for the tests of docs/data.md, and judges what the
commands of that page made of them.

    python migration.py improver|pytorch DIR STARTS
    python migration.py check-improver|check-pytorch DIR

improver: a cube a start and lead, as IMPROVER saves them: realization, latitude, longitude, and scalar coordinates of
time, forecast_reference_time, forecast_period and height; analyses with a lead of 0; percentiles and probabilities of the newest start.
pytorch: the arrays of a script, forecast.npy [start, lead, member, latitude, longitude] and analysis.npy [start, lead, latitude, longitude].

The weather is a cycle of the season, waves that travel, and errors that grow with the lead; the ensemble is too warm by 1 K
and has half the spread that it needs. The weights of the script are those of the published U-Net by PyTorch, with an input
and PyTorch's output, of unet3d/testdata (made by make_golden.py there).
"""
import datetime
import glob
import os
import statistics
import sys

import netCDF4
import numpy

GOLDEN = os.path.join(os.path.dirname(__file__), "../../../unet3d/testdata/unet3d_base2.safetensors")

LATITUDES = numpy.linspace(60, 37.5, 10)
LONGITUDES = numpy.linspace(-10, 25, 16)
FIRST = datetime.datetime(2026, 1, 1)
LEADS = (6, 12)
MEMBERS = 6
EPOCH = datetime.datetime(1970, 1, 1)


def seconds(t):
    return int((t - EPOCH).total_seconds())


def truth(valid):
    """The field of a time, K."""
    days = (valid - FIRST).total_seconds() / 86400
    lat, lon = numpy.meshgrid(LATITUDES, LONGITUDES, indexing="ij")
    field = 283 - 0.5 * (lat - 45) + 4 * numpy.sin(numpy.radians(9 * lon) - 0.7 * days) + 2 * numpy.cos(numpy.radians(15 * lat) + 1.3 * days)
    return field.astype("f4")


def smooth(rng):
    x = rng.standard_normal((LATITUDES.size, LONGITUDES.size))
    for axis in (0, 1):
        x = (x + numpy.roll(x, 1, axis) + numpy.roll(x, -1, axis)) / 3**0.5
    return x


def ensemble(start, lead, rng):
    """Members of a start and lead, and what happens."""
    valid = start + datetime.timedelta(hours=lead)
    size = 0.5 + lead / 12
    mean = truth(valid) + size * smooth(rng) + 1
    members = numpy.stack([mean + 0.5 * size * smooth(rng) for _ in range(MEMBERS)])
    return members.astype("f4")


def save(path, values, leading, start, valid, name="air_temperature", unit="K", extra=None):
    with netCDF4.Dataset(path, "w", format="NETCDF4") as f:
        f.Conventions = "CF-1.7, UKMO-1.0"
        f.title, f.source, f.institution = "Invented forecast", "IMPROVER", "Nobody"
        f.mosg__model_configuration = "uk_ens" if leading else "uk_det"
        dims = []
        for dim, (points, attributes) in leading.items():
            f.createDimension(dim, len(points))
            v = f.createVariable(dim, "i4" if points.dtype.kind == "i" else "f4", (dim,))
            v.setncatts(attributes)
            v[:] = points
            dims.append(dim)
        for dim, points, unit_of in (("latitude", LATITUDES, "degrees_north"), ("longitude", LONGITUDES, "degrees_east")):
            f.createDimension(dim, points.size)
            f.createDimension("bnds", 2) if "bnds" not in f.dimensions else None
            v = f.createVariable(dim, "f4", (dim,))
            v.axis, v.units, v.standard_name = dim[0:2].upper().replace("LA", "Y").replace("LO", "X"), unit_of, dim
            v[:] = points
            dims.append(dim)
        crs = f.createVariable("latitude_longitude", "i4")
        crs.grid_mapping_name, crs.earth_radius = "latitude_longitude", 6371229.0
        main = f.createVariable(name, "f4", dims, zlib=True, complevel=1)
        main.units, main.grid_mapping = unit, "latitude_longitude"
        main.coordinates = "forecast_period forecast_reference_time height time"
        if extra:
            main.setncatts(extra)
        else:
            main.standard_name = name
        main[:] = values
        for coord, kind, attributes, value in (
            ("forecast_period", "i4", {"units": "seconds", "standard_name": "forecast_period"}, seconds(valid) - seconds(start)),
            ("forecast_reference_time", "i8", {"units": "seconds since 1970-01-01 00:00:00", "standard_name": "forecast_reference_time", "calendar": "standard"}, seconds(start)),
            ("height", "f4", {"units": "m", "standard_name": "height", "positive": "up"}, 1.5),
            ("time", "i8", {"units": "seconds since 1970-01-01 00:00:00", "standard_name": "time", "calendar": "standard"}, seconds(valid)),
        ):
            v = f.createVariable(coord, kind)
            v.setncatts(attributes)
            v[...] = value


REALIZATION = {"realization": (numpy.arange(MEMBERS), {"units": "1", "standard_name": "realization"})}


def improver(root, starts):
    rng = numpy.random.default_rng(16)
    for folder in ("fc", "an"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    for i in range(starts):
        start = FIRST + datetime.timedelta(days=i)
        for lead in LEADS:
            valid = start + datetime.timedelta(hours=lead)
            members = ensemble(start, lead, rng)
            save(f"{root}/fc/{start:%Y%m%dT%H%MZ}-PT{lead:04d}H-temperature_at_screen_level.nc", members, REALIZATION, start, valid)
            save(f"{root}/an/{valid:%Y%m%dT%H%MZ}-PT0000H-temperature_at_screen_level.nc", truth(valid), {}, valid, valid)
    levels = numpy.array([10, 30, 50, 70, 90], "f4")
    save(f"{root}/percentiles.nc", numpy.percentile(members, levels, axis=0), {"percentile": (levels, {"units": "%", "long_name": "percentile"})}, start, valid)
    limits = numpy.array([273.15, 283.15], "f4")
    save(f"{root}/thresholds.nc", numpy.stack([(members > x).mean(0) for x in limits]),
         {"threshold": (limits, {"units": "K", "standard_name": "air_temperature", "spp__relative_to_threshold": "greater_than"})}, start, valid,
         "probability_of_air_temperature_above_threshold", "1", {"long_name": "probability_of_air_temperature_above_threshold"})


def pytorch(root, starts):
    rng = numpy.random.default_rng(16)
    days = [FIRST + datetime.timedelta(days=i) for i in range(starts)]
    numpy.save(f"{root}/forecast.npy", numpy.stack([[ensemble(d, lead, rng) for lead in LEADS] for d in days]))
    numpy.save(f"{root}/analysis.npy", numpy.stack([[truth(d + datetime.timedelta(hours=lead)) for lead in LEADS] for d in days]))
    from safetensors.numpy import load_file, save_file

    weights = load_file(GOLDEN)
    save_file({"input": weights.pop("golden.input")}, f"{root}/input.safetensors")
    weights.pop("golden.output")
    save_file(weights, f"{root}/weights.safetensors")


def near(what, got, want, tolerance):
    off = numpy.abs(numpy.asarray(got, "f8") - want).max()
    if not off <= tolerance:
        sys.exit(f"{what} is off by {off}, more than {tolerance}")


def check_improver(root):
    """Products against formulas: quantiles, probabilities, and members in the order of the raw ones (ECC-Q)."""
    normal = statistics.NormalDist()
    (path,) = glob.glob(f"{root}/products/*/*.nc")
    with netCDF4.Dataset(path) as f:
        mean, spread = f["t2m_mean"][0].astype("f8"), f["t2m_spread"][0].astype("f8")
        for level, field in zip(f["quantile"][:], f["t2m_quantile"][0]):
            near(f"quantile {level}", field, mean + normal.inv_cdf(float(level)) * spread, 1e-3)
        exceeds = numpy.vectorize(lambda m, s: 1 - normal.cdf((273.15 - m) / s))(mean, spread)
        near("probability", f["probability_of_t2m_above_threshold"][0, 0], exceeds, 1e-4)
        members = f["t2m"][0]
        lat, lon = f["latitude"][:], f["longitude"][:] % 360
    if lat.max() > 60 or lat.min() < 40 or ((lon + 180) % 360 - 180).max() > 20:
        sys.exit("the area was not cut out")
    (source,) = glob.glob(f"{root}/fc/20260112*PT0012H*")
    with netCDF4.Dataset(source) as f:
        rows = [int(numpy.argmin(abs(f["latitude"][:] - x))) for x in lat]
        columns = [int(numpy.argmin(abs((f["longitude"][:] - x + 180) % 360 - 180))) for x in lon]
        raw = f["air_temperature"][:][:, rows][:, :, columns]
    rank = raw.argsort(axis=0, kind="stable").argsort(axis=0)
    z = numpy.array([normal.inv_cdf((m + 0.5) / MEMBERS) for m in range(MEMBERS)])
    near("members", members, mean + z[rank] * spread, 1e-3)


def check_pytorch(root):
    """Imported weights give PyTorch's output, what is exported has PyTorch's names, and files have the values of the arrays."""
    from safetensors.numpy import load_file

    want = load_file(GOLDEN)
    got = load_file(f"{root}/output.safetensors")["output"]
    near("the output of the weights", got, want["golden.output"], 1e-4 * numpy.abs(want["golden.output"]).max())
    own = set(load_file(f"{root}/exported/network-00.safetensors"))
    if not {"enc_conv0.weight", "dec_conv0.bias"} <= own or own - set(want):
        sys.exit(f"exported are {sorted(own)}")
    forecast, analysis = numpy.load(f"{root}/forecast.npy"), numpy.load(f"{root}/analysis.npy")
    last = len(forecast) - 1
    with netCDF4.Dataset(f"{root}/fc_{last:03}.nc") as f:
        near("forecasts", f["t"][:, :, 0], forecast[last], 0)
    with netCDF4.Dataset(f"{root}/an_{24 * last + 12:04}.nc") as f:
        near("analyses", f["t"][0, 0], analysis[last, 1], 0)


if __name__ == "__main__":
    {"improver": improver, "pytorch": pytorch, "check-improver": check_improver, "check-pytorch": check_pytorch}[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))
