// Package zarr reads and writes Zarr stores of versions 2 and 3, in directories and
// zip archives: metadata, chunks, compressors, filters and shards. It is plain Go.
// Package cf interprets the arrays.
//
// # Stores
//
// A store maps keys to bytes. Metadata documents are JSON; every chunk is one key.
//
//	version 2                      version 3
//	.zgroup, .zattrs               zarr.json            root group
//	.zmetadata                     (in zarr.json)       consolidated metadata
//	t2m/.zarray, t2m/.zattrs       t2m/zarr.json        array
//	t2m/0.3.1                      t2m/c/0/3/1          chunk (0, 3, 1)
//
// Chunks have one shape. Chunk (i, j, …) of a chunk shape (c, d, …) holds the elements
// [i·c, (i+1)·c) × [j·d, (j+1)·d) × …. Chunks at the upper ends are stored with the
// full shape; elements outside of the array are ignored.
//
// # Codecs
//
// Encoding applies filters (elements to elements), serialisation (elements to bytes)
// and compressors or checksums (bytes to bytes). Decoding applies them in reverse:
//
//	version 2   filters, order and dtype, compressor
//	version 3   transpose, bytes or sharding_indexed, gzip, zstd, blosc, crc32c …
//
// An array of version 2 with two filters and a compressor, .zarray:
//
//	{"zarr_format": 2, "shape": [40, 181, 360], "chunks": [1, 181, 360],
//	 "dtype": "<f4", "order": "C", "fill_value": "NaN", "dimension_separator": ".",
//	 "filters": [{"id": "delta", "dtype": "<f4"}, {"id": "shuffle", "elementsize": 4}],
//	 "compressor": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1}}
//
// The same array in version 3, zarr.json, in shards of eight chunks:
//
//	{"zarr_format": 3, "node_type": "array", "shape": [40, 181, 360],
//	 "data_type": "float32", "fill_value": "NaN", "dimension_names": ["time", "lat", "lon"],
//	 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 181, 360]}},
//	 "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
//	 "codecs": [{"name": "sharding_indexed", "configuration": {
//	   "chunk_shape": [1, 181, 360],
//	   "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}],
//	   "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
//	   "index_location": "end"}}],
//	 "attributes": {"units": "K"}}
//
// codecs lists the supported ones. An array with another codec is listed in
// Store.Unused, and the other arrays stay readable.
//
// # Missing data
//
// Both versions have a fill value for elements that were never written. Readers
// return it for absent chunks, so a lost chunk looks like valid data. Here an absent
// chunk is an error unless Options.Sparse is set. The CF attributes _FillValue and
// missing_value mark missing values inside chunks.
//
// # Concurrency
//
// A Store may be used by several goroutines. Store.Read decodes chunks on all
// processors, each chunk once, and keeps recent chunks in a cache, because
// neighbouring requests often share chunks. A semaphore bounds the bytes of chunks
// that are being decoded.
//
// A store that is written while it is open is an error (exit 66): modification times
// of metadata and chunks are compared with the time of opening.
//
// # Untrusted input
//
// Numbers from a store are compared with the bytes that exist, or with a limit,
// before memory is allocated. Decoders stop at the size that the metadata state.
// Names from a store cannot refer to files outside of it.
//
// Source: Zarr storage specification version 2; Zarr core specification version 3.0
// and its codecs; xarray's encoding of dimensions (_ARRAY_DIMENSIONS).
package zarr
