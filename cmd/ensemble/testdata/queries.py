"""Judges the queries and the catalogue of a service by other readers.

queries.py URL FILE: FILE is a NetCDF product of the newest initialisation of the service at URL, on one level axis.
"""

import json
import sys
import urllib.parse
import urllib.request

import covjson_pydantic.coverage
import netCDF4
import numpy
import pystac
import pystac.validation.stac_validator
import xarray

url, path = sys.argv[1:]


def get(path, **parameters):
    query = urllib.parse.urlencode({k.replace("_", "-"): v for k, v in parameters.items()})
    with urllib.request.urlopen(f"{url}{path}?{query}") as r:
        return r.read(), r.headers


def coverages(text):
    document = json.loads(text)
    model = covjson_pydantic.coverage
    kind = model.CoverageCollection if document["type"] == "CoverageCollection" else model.Coverage
    kind.model_validate_json(text)
    return document.get("coverages", [document])


file = netCDF4.Dataset(path)
file.set_auto_mask(False)
lat, lon, pressure = (file[n][:] for n in ("latitude", "longitude", "pressure"))
compared = 0
for name, collection in {"t_mean": "mean", "t_spread": "spread", "t_quantile": "quantiles", "t": "members"}.items():
    values = file[name][0]
    axis = {"quantiles": "quantile", "members": "realization"}.get(collection)
    places = [""] if axis is None else ["_quantile_" + str(q).replace(".", "p") if axis == "quantile" else f"_member_{q}" for q in file[axis][:]]
    for j in range(0, len(lat), 3):
        i = (5 * j + 3) % len(lon)
        text, headers = get(f"/edr/collections/{collection}/position", coords=f"POINT({lon[i] + 0.4:g} {lat[j] - 0.4:g})")
        assert headers["Content-Type"] == "application/prs.coverage+json", headers
        (coverage,) = coverages(text)
        assert coverage["domain"]["axes"]["z"]["values"] == list(pressure)
        for k, suffix in enumerate(places):
            wanted = values[:, j, i] if axis is None else values[k, :, j, i]
            got = coverage["ranges"]["t" + suffix if axis else name]["values"]
            assert numpy.array_equal(numpy.float32(got), wanted), (name, suffix, lat[j], lon[i], got, wanted)
            compared += len(got)
assert compared > 100, compared

box = [float(lon[40]) - 360, float(lat[9]), float(lon[45]) - 360, float(lat[2])]
text, _ = get("/edr/collections/mean/cube", bbox=",".join(map(str, box)), f="NetCDF")
with open("answer.nc", "wb") as f:
    f.write(text)
part = xarray.open_dataset("answer.nc")
assert part.t_mean.dims == ("time", "pressure", "latitude", "longitude"), part.t_mean.dims
assert numpy.array_equal(part.t_mean[0], file["t_mean"][0, :, 2:10, 40:46]), "the box differs"
assert part.t_mean.attrs["standard_name"] == "air_temperature"
(coverage,) = coverages(get("/edr/collections/mean/cube", bbox=",".join(map(str, box)))[0])
assert numpy.array_equal(numpy.float32(coverage["ranges"]["t_mean"]["values"]), part.t_mean.values.ravel())

validator = pystac.validation.stac_validator.JsonSchemaSTACValidator()
catalogue = pystac.Catalog.from_file(f"{url}/stac/catalog.json")
items = list(catalogue.get_items(recursive=True))
assert len(items) == 1, items
for item in [catalogue, *catalogue.get_children(), *items]:
    document = item.to_dict()
    validator.validate_core(document, item.STAC_OBJECT_TYPE, document["stac_version"])
for name, asset in items[0].assets.items():
    with urllib.request.urlopen(asset.get_absolute_href()) as r:
        assert int(asset.extra_fields.get("file:size", r.headers["Content-Length"])) == len(r.read()), name
print(compared, "values")
