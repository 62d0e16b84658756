#!/usr/bin/env python3
"""Reading compared with other programs, alternately on the same files: `ensemble bench read`, a loop of
ecCodes in C (compiled here), cfgrib and netCDF4-python. Prints Markdown with ratios.

    build/venv/bin/python benchmarks/peers.py --peers ../shared/peers --dir DIR

  grib       0.5 degree fields of 16 bits, simple packing and CCSDS, against the loop on one
             thread and cfgrib's open and load
  netcdf     the same fields in NetCDF-4, deflated and shuffled, against netCDF4-python
  inventory  opening a GRIB file of 10 000 messages, against cfgrib without an index

Missing files are made by grib_peers.py of --peers and by the loop. They
are in memory; decoding processes are running, as the peers have done their imports.

needs: eccodes cfgrib xarray netCDF4 numpy; gcc and libeccodes-dev
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import netCDF4
import xarray

HERE = os.path.dirname(os.path.abspath(__file__))


def output(*command):
    p = subprocess.run(command, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"peers: {' '.join(command)}: exit {p.returncode}\n{p.stderr}{p.stdout}")
    return p.stdout


def seconds(f, *args):
    begin = time.perf_counter()
    f(*args)
    return time.perf_counter() - begin


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


def dated(source, path):
    """The fields of a file unchanged, in a file with their places and times."""
    with netCDF4.Dataset(source) as a, netCDF4.Dataset(path, "w") as b:
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


def series(times):
    def three(x):
        return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"
    return f"{three(statistics.median(times))} [{three(min(times))}–{three(max(times))}]"


class Measuring:
    def __init__(self, a, loop):
        self.a, self.loop, self.rows, self.notes = a, loop, [], []

    def ours(self, path, *flags):
        """Results of `ensemble bench read` for a file in one round."""
        return json.loads(output(self.a.ensemble, "bench", "read", "--json", "--progress", "none", "--rounds", "1", *flags, path))["files"][0]

    def row(self, case, unit, ours, peer, theirs, wanted):
        self.rows.append(f"| {case} | {series(ours)} | {unit} | {peer} | {series(theirs)} | {statistics.median(theirs) / statistics.median(ours):.2f} | {wanted:g} |")

    def grib(self, name, path, beside, beside_load):
        read, both, loop, load = [], [], [], []
        for _ in range(self.a.rounds):
            r = self.ours(path)
            each = 1e3 / r["fields"]
            read.append(each * r["read_ms"]["median"])
            both.append(each * (r["open_ms"]["median"] + r["read_ms"]["median"]))
            answer = json.loads(output(self.loop, "read", path, "1"))
            if answer["fields"] != r["fields"]:
                sys.exit(f"peers: {path}: the loop read {answer['fields']} fields of {r['fields']}")
            loop.append(1e3 * each * answer["seconds"][0])
            load.append(1e3 * each * seconds(cfgrib, path, True))
        self.row(name + ", read", "µs a field", read, "ecCodes in C, one thread", loop, beside)
        self.row(name + ", open and read", "µs a field", both, "cfgrib", load, beside_load)

    def netcdf(self, path, wanted):
        ours, theirs = [], []
        for _ in range(self.a.rounds):
            r = self.ours(path)
            ours.append(1e3 / r["fields"] * (r["open_ms"]["median"] + r["read_ms"]["median"]))
            theirs.append(1e6 / r["fields"] * seconds(netcdf4, path))
        self.row("NetCDF-4, deflate 1, shuffled, open and read", "µs a field", ours, "netCDF4-python", theirs, wanted)

    def inventory(self, path, wanted):
        ours, theirs = [], []
        for _ in range(self.a.rounds):
            r = self.ours(path, "--open-only")
            if r["fields"] != self.a.messages:
                sys.exit(f"peers: {path}: {r['fields']} fields, want {self.a.messages}")
            ours.append(r["open_ms"]["median"])
            theirs.append(1e3 * seconds(cfgrib, path, False))
        self.row(f"inventory of {self.a.messages} messages", "ms", ours, "cfgrib", theirs, wanted)
        self.notes.append(f"The catalogue of an open input takes {r['catalogue_bytes_per_field']:.0f} bytes a field.")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ensemble", default="bin/ensemble", help="the program")
    p.add_argument("--peers", default="../shared/peers", help="folder of grib_peers.py")
    p.add_argument("--dir", help="folder for the input files, kept; without it one that is removed")
    p.add_argument("--cases", default="grib,netcdf,inventory", help="what to measure")
    p.add_argument("--rounds", type=int, default=7, help="turns of each")
    p.add_argument("--members", default="5", help="members of the fields that are read")
    p.add_argument("--steps", default="8", help="their steps")
    p.add_argument("--messages", type=int, default=10_000, help="messages of the inventory")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        a.dir = a.dir or temporary
        os.makedirs(a.dir, exist_ok=True)
        simple, ccsds, plain, with_dates, many = (os.path.join(a.dir, n) for n in ("grid_simple.grib2", "grid_ccsds.grib2", "nc4.nc", "nc4_dated.nc", "inventory.grib2"))
        loop = os.path.join(temporary, "loop")
        output("gcc", "-O3", "-march=native", "-o", loop, os.path.join(HERE, "eccodes", "loop.c"), "-leccodes", "-lm")
        if not all(map(os.path.exists, (simple, ccsds, plain))):
            output(sys.executable, os.path.join(a.peers, "grib_peers.py"), "--dir", a.dir, "--reps", "3", "--members", a.members, "--steps", a.steps)
        if not os.path.exists(many):
            output(loop, "make", many, str(a.messages), "180", "91", "16")
        m, cases = Measuring(a, loop), a.cases.split(",")
        if "grib" in cases:
            m.grib("simple packing, 16 bits", simple, 3, 40)
            m.grib("CCSDS, 16 bits", ccsds, 1.7, 7)
        if "netcdf" in cases:
            dated(plain, with_dates)
            m.netcdf(with_dates, 1.7)
        if "inventory" in cases:
            m.inventory(many, 20)
    print(f"Medians of {a.rounds} alternate rounds, with the smallest and largest of them. xarray {xarray.__version__}, netCDF4 {netCDF4.__version__}.\n\n"
          "| case | ours | unit | peer | it takes | ratio | wanted |\n|---|--:|---|---|--:|--:|--:|")
    print("\n".join(m.rows + [""] + m.notes))


main()
