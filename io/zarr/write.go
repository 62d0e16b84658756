package zarr

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Write creates a store of version 2 or 3 in the directory path, which must not
// exist. payload holds the values. Metadata are consolidated. All chunks are
// written, including those with fill values only. Compressed variables use zlib in
// version 2 and gzip in version 3. The shuffle filter is not used, because GDAL 3.6
// and version 3 do not have it.
//
// The same description and values give the same bytes.
//
// Errors: those of the file system; a description that contradicts itself.
// Source: Zarr storage specification version 2; Zarr core specification 3.0.
func Write(path string, f *encode.NetCDF, payload []byte, version int) error {
	w := &writer{dir: path, version: version, sizes: map[string]int{}, nodes: map[string]any{}}
	for _, d := range f.Dimensions {
		w.sizes[d.Name] = d.Size
	}
	if err := filesystem.Mkdir(path, 0o777); err != nil {
		return err
	}
	attrs, err := jsonAttributes(f.Attributes)
	if err != nil {
		return err
	}
	for _, v := range f.Variables {
		if err := w.writeArray(v, payload); err != nil {
			return fmt.Errorf("variable %s: %w", v.Name, err)
		}
	}
	return w.writeGroup(attrs)
}

// writer writes one store.
type writer struct {
	dir     string
	version int
	// sizes holds the lengths of the dimensions.
	sizes map[string]int
	// nodes holds all metadata by key, for the consolidated copy.
	nodes map[string]any
}

// writeFile writes one key and syncs it.
func (w *writer) writeFile(key string, content []byte) error {
	// O_EXCL: a key is written once.
	f, err := filesystem.OpenFile(filepath.Join(w.dir, filepath.FromSlash(key)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// writeNode writes metadata that are repeated in the consolidated copy.
func (w *writer) writeNode(key string, v any) error {
	w.nodes[key] = v
	return w.writeJSON(key, v)
}

// writeJSON writes a metadata document.
func (w *writer) writeJSON(key string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return w.writeFile(key, append(text, '\n'))
}

// writeGroup writes the metadata of the root group, last of all.
func (w *writer) writeGroup(attrs map[string]any) error {
	if w.version == 3 {
		all := map[string]any{}
		for key, node := range w.nodes {
			all[path.Dir(key)] = node
		}
		err := w.writeJSON(nodeName3, map[string]any{"zarr_format": 3, "node_type": "group", "attributes": attrs,
			"consolidated_metadata": map[string]any{"kind": "inline", "must_understand": false, "metadata": all}})
		return errors.Join(err, filesystem.SyncDir(w.dir))
	}
	// The metadata of the root group come last, so that an interrupted write is not
	// a store.
	return errors.Join(w.writeNode(attributesName2, attrs), w.writeNode(groupName2, map[string]any{"zarr_format": 2}),
		w.writeJSON(consolidatedName2, map[string]any{"zarr_consolidated_format": 1, "metadata": w.nodes}), filesystem.SyncDir(w.dir))
}

// writeArray writes an array: its metadata and its chunks.
func (w *writer) writeArray(v encode.Variable, payload []byte) error {
	raw, err := v.Values.In(payload)
	if err != nil {
		return err
	}
	a := outputArray{Variable: v, size: v.Type.Size(), dims: v.Dimensions}
	n := 1
	for _, d := range v.Dimensions {
		if w.sizes[d] < 1 {
			return fmt.Errorf("unknown dimension %s", d)
		}
		a.shape = append(a.shape, w.sizes[d])
		n *= w.sizes[d]
	}
	if len(raw) != n*a.size {
		return fmt.Errorf("%d bytes for %d values of type %s", len(raw), n, v.Type)
	}
	if v.Type == encode.Char { // strings: their bytes are not a dimension in Zarr
		if w.version == 3 {
			return errors.New("version 3 has no string type that all readers support; write version 2")
		}
		last := len(a.shape) - 1
		if last < 0 {
			return errors.New("a string variable without a dimension")
		}
		a.size = a.shape[last]
		a.shape, a.dims, a.Chunks = a.shape[:last], a.dims[:last], nil
	}
	// Without chunk shape the array is one chunk.
	if a.Chunks == nil {
		a.Chunks = a.shape
	}
	if len(a.Chunks) != len(a.shape) {
		return fmt.Errorf("%d chunk lengths for %d dimensions", len(a.Chunks), len(a.shape))
	}
	if err := filesystem.Mkdir(filepath.Join(w.dir, v.Name), 0o777); err != nil {
		return err
	}
	if err := w.writeArrayMetadata(&a); err != nil {
		return err
	}
	folders, err := w.writeChunks(&a, raw)
	for _, folder := range append(folders, v.Name) {
		err = errors.Join(err, filesystem.SyncDir(filepath.Join(w.dir, filepath.FromSlash(folder))))
	}
	return err
}

// outputArray is an array that is being written.
type outputArray struct {
	encode.Variable
	// shape and dims exclude the string length of a character array.
	shape []int
	dims  []string
	// size is the number of bytes per element.
	size int
}

// writeArrayMetadata writes the metadata of an array.
func (w *writer) writeArrayMetadata(a *outputArray) error {
	attrs, err := jsonAttributes(a.Attributes)
	if err != nil {
		return err
	}
	fill, filled := attrs["_FillValue"]
	shape, dims, chunks := append([]int{}, a.shape...), append([]string{}, a.dims...), append([]int{}, a.Chunks...)
	if w.version == 3 {
		if !filled {
			fill = 0
		} else if x, ok := fill.(float64); ok && a.Type != encode.Short && a.Type != encode.Int {
			attrs["_FillValue"] = base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
		codecs := []any{map[string]any{"name": "bytes", "configuration": map[string]any{"endian": "little"}}}
		if a.Deflate > 0 {
			codecs = append(codecs, map[string]any{"name": "gzip", "configuration": map[string]any{"level": a.Deflate}})
		}
		return w.writeNode(a.Name+"/"+nodeName3, map[string]any{"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dataTypes[a.Type][1],
			"chunk_grid":         map[string]any{"name": "regular", "configuration": map[string]any{"chunk_shape": chunks}},
			"chunk_key_encoding": map[string]any{"name": "default", "configuration": map[string]any{"separator": "/"}},
			"fill_value":         fill, "codecs": codecs, "attributes": attrs, "dimension_names": dims})
	}
	// xarray uses fill_value as _FillValue, and rejects an attribute with the same
	// name.
	delete(attrs, "_FillValue")
	attrs["_ARRAY_DIMENSIONS"] = dims
	dtype := dataTypes[a.Type][0]
	if a.Type == encode.Char {
		dtype = fmt.Sprintf("|S%d", a.size)
	}
	m := map[string]any{"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": fill, "order": "C", "compressor": nil, "filters": nil}
	if a.Deflate > 0 {
		m["compressor"] = map[string]any{"id": "zlib", "level": a.Deflate}
	}
	return errors.Join(w.writeNode(a.Name+"/"+arrayName2, m), w.writeNode(a.Name+"/"+attributesName2, attrs))
}

// dataTypes gives the data types of versions 2 and 3.
var dataTypes = map[encode.Type][2]string{encode.Float: {"<f4", "float32"}, encode.Double: {"<f8", "float64"}, encode.Int: {"<i4", "int32"}, encode.Short: {"<i2", "int16"}}

// writeChunks writes the chunks of an array. Chunks at the upper ends are padded
// with zeros. The folders of chunks that are returned are not synced.
func (w *writer) writeChunks(a *outputArray, raw []byte) (folders []string, err error) {
	n := len(a.shape)
	index := make([]int64, n)
	k := chunkKeys{a.Name + "/", ".", "0"}
	if w.version == 3 {
		if k = (chunkKeys{a.Name + "/c/", "/", ""}); n == 0 {
			k.prefix = a.Name + "/c"
		}
	}
	size := a.size
	for _, c := range a.Chunks {
		size *= c
	}
	for {
		// Each chunk has the full shape.
		chunk := make([]byte, size)
		a.gather(chunk, raw, index)
		packed, err := a.compress(chunk, w.version)
		if err != nil {
			return nil, err
		}
		// Version 3 nests keys, so directories must exist.
		key := k.key(index)
		if w.version == 3 {
			if err := filesystem.MkdirAll(filepath.Dir(filepath.Join(w.dir, filepath.FromSlash(key))), 0o777); err != nil {
				return nil, err
			}
			for folder := path.Dir(key); folder != a.Name && !slices.Contains(folders, folder); folder = path.Dir(folder) {
				folders = append(folders, folder)
			}
		}
		if err := w.writeFile(key, packed); err != nil {
			return nil, err
		}
		i := n - 1
		for ; i >= 0; i-- {
			if index[i]++; int(index[i])*a.Chunks[i] < a.shape[i] {
				break
			}
			index[i] = 0
		}
		if i < 0 {
			return folders, nil
		}
	}
}

// gather copies the elements of a chunk, row by row.
func (a *outputArray) gather(chunk, raw []byte, index []int64) {
	n := len(a.shape)
	if n == 0 {
		copy(chunk, raw)
		return
	}
	place := make([]int, n)
	last := n - 1
	for {
		// Offsets of a row in the array and in the chunk.
		from, to, inside := 0, 0, true
		for i := range n {
			at := int(index[i])*a.Chunks[i] + place[i]
			inside = inside && at < a.shape[i]
			from, to = from*a.shape[i]+at, to*a.Chunks[i]+place[i]
		}
		// Rows outside of the array stay zero.
		if inside {
			row := min(a.Chunks[last], a.shape[last]-int(index[last])*a.Chunks[last])
			copy(chunk[to*a.size:(to+row)*a.size], raw[from*a.size:])
		}
		i := last - 1
		for ; i >= 0; i-- {
			if place[i]++; place[i] < a.Chunks[i] {
				break
			}
			place[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// compress compresses a chunk if Deflate is set.
func (a *outputArray) compress(chunk []byte, version int) ([]byte, error) {
	if a.Deflate == 0 {
		return chunk, nil
	}
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	if version == 3 {
		w, err = gzip.NewWriterLevel(&b, a.Deflate)
	} else {
		w, err = zlib.NewWriterLevel(&b, a.Deflate)
	}
	if err != nil {
		return nil, err
	}
	_, err = w.Write(chunk)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// jsonAttributes converts attributes to JSON: a single number, or a list of
// several.
//
// Errors: an attribute without a value.
func jsonAttributes(list []encode.Attribute) (map[string]any, error) {
	out := map[string]any{}
	for _, a := range list {
		var numbers []any
		for _, v := range a.Floats {
			numbers = append(numbers, float64(v))
		}
		for _, v := range a.Doubles {
			numbers = append(numbers, v)
		}
		for _, v := range a.Ints {
			numbers = append(numbers, v)
		}
		for _, v := range a.Shorts {
			numbers = append(numbers, v)
		}
		switch {
		case a.Text != "":
			out[a.Name] = a.Text
		// CF attributes with one number are scalars.
		case len(numbers) == 1:
			out[a.Name] = numbers[0]
		case numbers != nil:
			out[a.Name] = numbers
		default:
			return nil, fmt.Errorf("attribute %s has no value", a.Name)
		}
	}
	return out, nil
}
