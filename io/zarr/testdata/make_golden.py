"""Stores of all types, codecs and layouts, written by zarr-python, numcodecs and xarray,
and what they hold: make_golden.py FOLDER.

Every array is the same formula, so that the test knows its values without reading them:
element k of the array in C order is (k * 37 + 11) % 101, less 50 for signed types, halves
of it for floats. The stores go into golden.zip, from which the test unpacks them.
"""

import json
import pathlib
import shutil
import sys
import zipfile

import numcodecs
import numpy as np
import zarr
from zarr.codecs import (BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec)

out = pathlib.Path(sys.argv[1])
work = out / "work"
shutil.rmtree(work, ignore_errors=True)
zarr.config.set({"array.write_empty_chunks": True, "async.concurrency": 1})


def values(shape, dtype):
    k = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    x = (k * 37 + 11) % 101
    d = np.dtype(dtype)
    if d.kind in "if":
        x = x - 50
    if d.kind == "f":
        x = x / 2
    if d.kind == "b":
        x = x % 2
    return x.astype(d)


SHAPE, CHUNKS, DIMS = (5, 6, 7), (2, 6, 4), ["a", "b", "c"]


def blosc2(cname, shuffle, **kw):
    return numcodecs.Blosc(cname=cname, shuffle=shuffle, **kw)


# version 2: name -> dtype and keywords
v2 = {}
for d in ["<f2", "<f4", ">f4", "<f8", ">f8", "|i1", "<i2", ">i2", "<i4", ">i4", "<i8", ">i8", "|u1", "<u2", ">u2", "<u4", "<u8", ">u8", "|b1"]:
    v2["type_" + d.replace("<", "le_").replace(">", "be_").replace("|", "")] = (d, dict(compressor=numcodecs.Zlib(1)))
for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
    for shuffle in [0, 1, 2]:
        v2[f"blosc_{cname}_{shuffle}"] = ("<f4", dict(compressor=blosc2(cname, shuffle)))
for d in ["|u1", "<i2", "<f8"]:
    for shuffle in [1, 2]:
        v2[f"blosc_{d[1:]}_{shuffle}"] = (d, dict(compressor=blosc2("lz4", shuffle)))
v2["raw"] = ("<f4", dict(compressor=None))
v2["gzip"] = ("<f4", dict(compressor=numcodecs.GZip(6)))
v2["zlib"] = ("<f4", dict(compressor=numcodecs.Zlib(6)))
v2["zstd"] = ("<f4", dict(compressor=numcodecs.Zstd(3)))
v2["lz4"] = ("<f4", dict(compressor=numcodecs.LZ4()))
v2["bz2"] = ("<f4", dict(compressor=numcodecs.BZ2(1)))
v2["order_f"] = ("<f4", dict(compressor=numcodecs.Zlib(1), order="F"))
v2["shuffle"] = ("<f4", dict(compressor=numcodecs.Zlib(1), filters=[numcodecs.Shuffle(4)]))
v2["delta"] = ("<i4", dict(compressor=numcodecs.Zlib(1), filters=[numcodecs.Delta("<i4", "<i2")]))
v2["delta_f4"] = ("<f4", dict(compressor=numcodecs.Zlib(1), filters=[numcodecs.Delta("<f4")]))
v2["scaled"] = ("<f8", dict(compressor=numcodecs.Zlib(1), filters=[numcodecs.FixedScaleOffset(offset=-30, scale=2, dtype="<f8", astype="<u2")]))
v2["scaled_f4"] = ("<f4", dict(compressor=None, filters=[numcodecs.FixedScaleOffset(offset=1, scale=4, dtype="<f4", astype="<i4")]))
v2["slashes"] = ("<f4", dict(compressor=numcodecs.Zlib(1), dimension_separator="/"))
v2["bitround"] = ("<f4", dict(compressor=numcodecs.Zlib(1), filters=[numcodecs.BitRound(20)]))

folder = work / "v2.zarr"
root = zarr.open_group(folder, mode="w", zarr_format=2)


def create2(group, name, data, chunks, dims, compressor=None, filters=None, order="C", dimension_separator=".", fill_value=None):
    a = zarr.create(store=group.store_path / name, shape=data.shape, chunks=chunks, dtype=data.dtype, compressor=compressor, filters=filters, order=order,
                    dimension_separator=dimension_separator, fill_value=fill_value, zarr_format=2)
    a.attrs["_ARRAY_DIMENSIONS"] = dims
    a[...] = data
    return a


for name, (d, kw) in v2.items():
    create2(root, name, values(SHAPE, d), CHUNKS, DIMS, **kw)
create2(root, "scalar", values((), "<f4"), (), [])
create2(root, "large_blosclz", values((1, 64, 512), "<f4"), (1, 64, 512), ["one", "y", "x"], compressor=blosc2("blosclz", 1, blocksize=8192))
create2(root, "large_bits", values((1, 65, 511), "<i2"), (1, 65, 511), ["one", "y1", "x1"], compressor=blosc2("zstd", 2, blocksize=4096))
create2(root, "times", np.array(["2020-01-01T00", "2020-01-01T06", "NaT"], "M8[h]"), (2,), ["time"])
create2(root, "spans", np.array([0, 21600], "m8[s]"), (2,), ["lead"])
a = create2(root, "text", np.array(["ab", "c"], "U2"), (2,), ["text"])
zarr.consolidate_metadata(folder, zarr_format=2)

# version 3
v3 = {}
for d in ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]:
    v3["type_" + d] = (d, dict(compressors=[GzipCodec()]))
for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
    for shuffle in ["noshuffle", "shuffle", "bitshuffle"]:
        v3[f"blosc_{cname}_{shuffle}"] = ("float32", dict(compressors=[BloscCodec(cname=cname, shuffle=shuffle)]))
v3["raw"] = ("float32", dict(compressors=None))
v3["big"] = ("float32", dict(serializer=BytesCodec(endian="big"), compressors=[ZstdCodec()]))
v3["zstd"] = ("float32", dict(compressors=[ZstdCodec(checksum=True)]))
v3["crc32c"] = ("float32", dict(compressors=[GzipCodec(), Crc32cCodec()]))
v3["transpose"] = ("float32", dict(filters=[TransposeCodec(order=(2, 0, 1))], compressors=[GzipCodec()]))
v3["transpose_twice"] = ("float32", dict(filters=[TransposeCodec(order=(2, 0, 1)), TransposeCodec(order=(1, 0, 2))], compressors=[GzipCodec()]))
v3["keys_v2"] = ("float32", dict(chunk_key_encoding={"name": "v2", "separator": "."}))
v3["keys_dots"] = ("float32", dict(chunk_key_encoding={"name": "default", "separator": "."}))
v3["shards"] = ("float32", dict(chunks=(1, 3, 2), shards=(2, 6, 4), compressors=[ZstdCodec()]))
v3["shards_start"] = ("int16", dict(serializer=ShardingCodec(chunk_shape=(1, 3, 2), codecs=[BytesCodec(), BloscCodec(cname="lz4")], index_location="start"), compressors=None))
v3["shards_transposed"] = ("float64", dict(serializer=ShardingCodec(chunk_shape=(2, 3, 4), codecs=[TransposeCodec(order=(1, 2, 0)), BytesCodec(endian="big"), GzipCodec()]), compressors=None))

folder = work / "v3.zarr"
root = zarr.open_group(folder, mode="w", zarr_format=3)
for name, (d, kw) in v3.items():
    kw = {"chunks": CHUNKS, **kw}
    a = root.create_array(name, shape=SHAPE, dtype=d, dimension_names=DIMS, **kw)
    a[...] = values(SHAPE, d)
a = root.create_array("scalar", shape=(), dtype="float32", dimension_names=[])
a[...] = values((), "f4")
a = root.create_array("times", shape=(3,), chunks=(2,), dtype="datetime64[ns]", dimension_names=["time"])
a[...] = np.array(["2020-01-01T00", "2020-01-01T06", "NaT"], "M8[ns]")
g = root.create_group("inner")
a = g.create_array("x", shape=(4,), chunks=(3,), dtype="int32", dimension_names=["d"])
a[...] = values((4,), "i4")
zarr.consolidate_metadata(folder, zarr_format=3)

archive = zipfile.ZipFile(out / "golden.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9)
for path in sorted(work.rglob("*")):
    if path.is_file():
        info = zipfile.ZipInfo(str(path.relative_to(work)), (2000, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, path.read_bytes())
archive.close()
shutil.rmtree(work)
print(json.dumps({"zarr": zarr.__version__, "numcodecs": numcodecs.__version__, "arrays": len(v2) + len(v3)}))
