package zarr

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/io/cf"
)

// maxChunk bounds the decoded bytes of one chunk.
const maxChunk = 1 << 30

// Array is one array of a store.
type Array struct {
	// Path is "t" or, in a group, "group/t".
	Path string
	// Shape holds the number of elements along each dimension.
	Shape []int64
	// Dims holds the names of the dimensions: dimension_names of version 3,
	// _ARRAY_DIMENSIONS of xarray in version 2.
	Dims []string
	// Attrs holds the attributes, with those of CF that Zarr stores elsewhere.
	Attrs map[string]cf.Attr

	// dtype is the type of decoded elements.
	dtype dtype
	// fill is the value of elements in absent chunks, valid if hasFill.
	fill    float64
	hasFill bool
	// chunk is the shape of a chunk, or of a shard.
	chunk []int64
	// keys forms the keys of the chunks or shards.
	keys chunkKeys
	// order lists the axes in storage order, slowest first.
	order []int
	// stored is the type of the elements after all filters.
	stored dtype
	// decoders holds the codecs of a chunk, or of a chunk inside a shard, in the
	// order of encoding.
	decoders []decoder
	// sharded is nil for an array without shards.
	sharded *sharding
	// packing unpacks values by the CF attributes.
	packing cf.Packing
	// version of Zarr, 2 or 3.
	version int
	// text reports an array of strings, which is not read.
	text bool
}

// unusedError is the reason why a valid array cannot be used.
type unusedError struct{ reason string }

// Error returns the reason.
func (e *unusedError) Error() string { return e.reason }

// unusedf formats an unusedError.
func unusedf(format string, args ...any) error { return &unusedError{fmt.Sprintf(format, args...)} }

// chunkKeys forms the keys of chunks.
//
// Source: Zarr version 2, chunks; Zarr core specification 3.0, chunk key encoding.
type chunkKeys struct {
	// prefix is "group/t/", followed by "c" and the separator in version 3.
	prefix string
	// separator is "." or "/".
	separator string
	// scalar is the suffix of the only chunk of an array without dimensions: "0" in
	// version 2, none in version 3.
	scalar string
}

// key returns the key of a chunk.
func (k chunkKeys) key(index []int64) string {
	if len(index) == 0 {
		return k.prefix + k.scalar
	}
	var b strings.Builder
	b.WriteString(k.prefix)
	for i, n := range index {
		if i > 0 {
			b.WriteString(k.separator)
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// unmarshal decodes JSON. It also accepts bare NaN and Infinity, which Python
// writes, and decodes them as strings.
func unmarshal(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err == nil {
		return nil
	}
	return json.Unmarshal(quoteNonFinite(text), v)
}

// quoteNonFinite quotes the words NaN, Infinity and -Infinity outside of strings.
func quoteNonFinite(text []byte) []byte {
	var out bytes.Buffer
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		// An escaped character cannot end the string.
		case inside && c == '\\' && i+1 < len(text):
			out.WriteByte(c)
			i++
		case c == '"':
			inside = !inside
		case !inside:
			for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(text[i:], []byte(word)) {
					fmt.Fprintf(&out, "%q", word)
					i += len(word)
					break
				}
			}
			if i >= len(text) {
				return out.Bytes()
			}
		}
		out.WriteByte(text[i])
	}
	return out.Bytes()
}

// namedConfig is a codec or another extension point. In version 2 the name is "id",
// and the configuration is in the same object.
type namedConfig struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Configuration json.RawMessage `json:"configuration"`
}

// parseArray2 parses the .zarray and .zattrs of an array.
//
// Errors: *unusedError; others for metadata that contradict themselves.
// Source: Zarr storage specification version 2, metadata: zarr_format, shape,
// chunks, dtype, compressor, fill_value, order, filters, dimension_separator.
func parseArray2(path string, text, attrs []byte) (*Array, error) {
	var m struct {
		Format     int               `json:"zarr_format"`
		Shape      []int64           `json:"shape"`
		Chunks     []int64           `json:"chunks"`
		Dtype      json.RawMessage   `json:"dtype"`
		Compressor json.RawMessage   `json:"compressor"`
		Fill       json.RawMessage   `json:"fill_value"`
		Order      string            `json:"order"`
		Filters    []json.RawMessage `json:"filters"`
		Separator  string            `json:"dimension_separator"`
	}
	if err := unmarshal(text, &m); err != nil {
		return nil, err
	}
	// A .zarray of another version is not valid, whatever follows.
	if m.Format != 2 {
		return nil, fmt.Errorf("zarr_format is %d in a .zarray", m.Format)
	}
	// dimension_separator is optional, with default ".".
	if m.Separator == "" {
		m.Separator = "."
	}
	if m.Separator != "." && m.Separator != "/" {
		return nil, fmt.Errorf("dimension_separator is %q", m.Separator)
	}
	a := &Array{Path: path, Shape: m.Shape, chunk: m.Chunks, version: 2, keys: chunkKeys{path + "/", m.Separator, "0"}}
	if err := a.setAttributes(attrs); err != nil {
		return nil, err
	}
	// Version 2 has no names of dimensions. xarray stores them in an attribute.
	var xarray struct {
		Dims []string `json:"_ARRAY_DIMENSIONS"`
	}
	if unmarshal(attrs, &xarray) == nil {
		a.Dims = xarray.Dims
	}
	delete(a.Attrs, "_ARRAY_DIMENSIONS")
	var name string
	// A structured type is a list of fields.
	if json.Unmarshal(m.Dtype, &name) != nil {
		return a, unusedf("its type %.60s is not numeric", m.Dtype)
	}
	// Arrays of strings are registered, so that coordinates can refer to them, but
	// not read.
	if a.text = isTextType(name); a.text {
		return a, a.checkDimNames()
	}
	var err error
	if a.dtype, err = parseDtype(name); err != nil {
		return a, unusedf("%v", err)
	}
	if err := a.checkShape(); err != nil {
		return nil, err
	}
	a.order = make([]int, len(a.Shape))
	for i := range a.order {
		a.order[i] = i
	}
	// C is row-major, F column-major.
	switch m.Order {
	case "C", "":
	case "F":
		slices.Reverse(a.order)
	default:
		return nil, fmt.Errorf("order is %q", m.Order)
	}
	a.stored = a.dtype
	// The compressor is the last codec.
	if len(m.Compressor) > 0 && string(m.Compressor) != "null" {
		m.Filters = append(m.Filters, m.Compressor)
	}
	for _, conf := range m.Filters {
		var c namedConfig
		if err := json.Unmarshal(conf, &c); err != nil {
			return nil, err
		}
		// Filters change the type that the next codec gets.
		s, err := newDecoder(c.ID, conf, &a.stored)
		if err != nil {
			return a, unusedf("%v", err)
		}
		a.decoders = append(a.decoders, s)
	}
	return a, a.finish(m.Fill)
}

// parseArray3 parses the zarr.json of an array.
//
// Errors: *unusedError; others for metadata that contradict themselves.
// Source: Zarr core specification 3.0, array metadata: shape, data_type,
// chunk_grid, chunk_key_encoding, fill_value, codecs, attributes, dimension_names,
// storage_transformers.
func parseArray3(path string, text []byte) (*Array, error) {
	var m struct {
		Format int             `json:"zarr_format"`
		Shape  []int64         `json:"shape"`
		Type   json.RawMessage `json:"data_type"`
		Grid   struct {
			Name          string `json:"name"`
			Configuration struct {
				Shape []int64 `json:"chunk_shape"`
			} `json:"configuration"`
		} `json:"chunk_grid"`
		Keys struct {
			Name          string `json:"name"`
			Configuration struct {
				Separator string `json:"separator"`
			} `json:"configuration"`
		} `json:"chunk_key_encoding"`
		Fill         json.RawMessage   `json:"fill_value"`
		Codecs       []json.RawMessage `json:"codecs"`
		Attributes   json.RawMessage   `json:"attributes"`
		Dims         []*string         `json:"dimension_names"`
		Transformers []json.RawMessage `json:"storage_transformers"`
	}
	if err := unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.Format != 3 {
		return nil, fmt.Errorf("zarr_format is %d in a zarr.json", m.Format)
	}
	a := &Array{Path: path, Shape: m.Shape, chunk: m.Grid.Configuration.Shape, version: 3}
	if err := a.setAttributes(quoteNonFinite(m.Attributes)); err != nil {
		return nil, err
	}
	for _, d := range m.Dims {
		if d == nil {
			a.Dims = append(a.Dims, "")
		} else {
			a.Dims = append(a.Dims, *d)
		}
	}
	// Unknown members come first: they may change the meaning of all others.
	if err := checkMustUnderstand(text); err != nil {
		return a, err
	}
	// The core specification defines the regular grid only.
	if m.Grid.Name != "regular" {
		return a, unusedf("its chunk grid %.60q is not supported", m.Grid.Name)
	}
	// No storage transformer has been standardised.
	if len(m.Transformers) > 0 {
		return a, unusedf("it has storage transformers")
	}
	separator := m.Keys.Configuration.Separator
	switch m.Keys.Name {
	// The key of chunk (i, j) is c/i/j.
	case "default":
		if separator == "" {
			separator = "/"
		}
		a.keys = chunkKeys{path + "/c" + separator, separator, ""}
		if len(a.Shape) == 0 {
			a.keys.prefix = path + "/c"
		}
	// The key of chunk (i, j) is i.j, as in version 2.
	case "v2":
		if separator == "" {
			separator = "."
		}
		a.keys = chunkKeys{path + "/", separator, "0"}
	default:
		return a, unusedf("its chunk keys %.60q are not supported", m.Keys.Name)
	}
	if separator != "." && separator != "/" {
		return nil, fmt.Errorf("the separator of chunk keys is %q", separator)
	}
	if a.text = isTextType3(m.Type); a.text {
		return a, a.checkDimNames()
	}
	var err error
	if a.dtype, err = parseDataType(m.Type); err != nil {
		return a, unusedf("%v", err)
	}
	if err := a.checkShape(); err != nil {
		return nil, err
	}
	if err := a.parseCodecs3(m.Codecs); err != nil {
		return a, err
	}
	return a, a.finish(m.Fill)
}

// knownMembers3 lists the members of an array's zarr.json that this package reads.
var knownMembers3 = []string{"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes", "dimension_names",
	"storage_transformers", "consolidated_metadata"}

// checkMustUnderstand rejects arrays with unknown members, unless these state
// must_understand: false.
//
// Source: Zarr core specification 3.0, extension points.
func checkMustUnderstand(text []byte) error {
	var all map[string]json.RawMessage
	if err := unmarshal(text, &all); err != nil {
		return err
	}
	for name, raw := range all {
		var may struct {
			Must *bool `json:"must_understand"`
		}
		if !slices.Contains(knownMembers3, name) && (json.Unmarshal(raw, &may) != nil || may.Must == nil || *may.Must) {
			return unusedf("its metadata has the unknown member %.60q", name)
		}
	}
	return nil
}

// parseCodecs3 parses the codecs of version 3: array → array codecs (transpose,
// filters), one array → bytes codec (bytes, sharding_indexed), bytes → bytes codecs
// (compressors, checksums).
//
// Source: Zarr core specification 3.0, codecs.
func (a *Array) parseCodecs3(list []json.RawMessage) error {
	a.order = make([]int, len(a.Shape))
	for i := range a.order {
		a.order[i] = i
	}
	a.stored = a.dtype
	serialised := false
	for _, raw := range list {
		var c namedConfig
		if json.Unmarshal(raw, &c.Name) != nil { // a name without configuration
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
		}
		switch {
		// array → array: element i of the order is the axis of the input that
		// becomes axis i.
		case c.Name == "transpose" && !serialised:
			var t struct {
				Order []int `json:"order"`
			}
			if err := json.Unmarshal(c.Configuration, &t); err != nil {
				return unusedf("its codec transpose is invalid")
			}
			if !isPermutation(t.Order, len(a.order)) {
				return fmt.Errorf("transpose: order %v for %d axes", t.Order, len(a.order))
			}
			// Consecutive transpositions compose.
			next := make([]int, len(a.order))
			for i, k := range t.Order {
				next[i] = a.order[k]
			}
			a.order = next
		// array → bytes: C order in the given byte order.
		case c.Name == "bytes" && !serialised:
			var b struct {
				Endian string `json:"endian"`
			}
			if len(c.Configuration) > 0 {
				if err := json.Unmarshal(c.Configuration, &b); err != nil {
					return err
				}
			}
			// Types of one byte need no byte order.
			if b.Endian != "little" && b.Endian != "big" && a.stored.size > 1 {
				return fmt.Errorf("endian is %q", b.Endian)
			}
			if b.Endian == "big" {
				if len(a.decoders) > 0 {
					return unusedf("its elements are filtered and big-endian, which is not supported")
				}
				a.stored.big, a.dtype.big = true, true
			}
			serialised = true
		// array → bytes: chunks with an index, shard.go.
		case c.Name == "sharding_indexed" && !serialised:
			if len(a.decoders) > 0 || !slices.IsSorted(a.order) {
				return unusedf("its shards are transposed or filtered, which is not supported")
			}
			if err := a.parseSharding(c.Configuration); err != nil {
				return err
			}
			serialised = true
		default:
			if a.sharded != nil {
				return unusedf("its shards are compressed as a whole, which is not supported")
			}
			// The configuration is optional.
			if c.Configuration == nil {
				c.Configuration = json.RawMessage("{}")
			}
			s, err := newDecoder(c.Name, c.Configuration, &a.stored)
			if err != nil {
				return unusedf("%v", err)
			}
			a.decoders = append(a.decoders, s)
		}
	}
	if !serialised {
		return errors.New("no codec converts elements to bytes")
	}
	return nil
}

// isPermutation reports whether p is a permutation of 0 … n−1.
func isPermutation(p []int, n int) bool {
	q := slices.Clone(p)
	slices.Sort(q)
	for i, k := range q {
		if i != k {
			return false
		}
	}
	return len(p) == n
}

// checkShape checks shape and chunk shape, including overflow.
func (a *Array) checkShape() error {
	if len(a.Shape) != len(a.chunk) {
		return fmt.Errorf("%d dimensions, but chunks of %d dimensions", len(a.Shape), len(a.chunk))
	}
	all, one := int64(1), int64(a.dtype.size)
	for i, n := range a.Shape {
		c := a.chunk[i]
		if n < 0 || c < 1 {
			return fmt.Errorf("shape %v, chunks %v", a.Shape, a.chunk)
		}
		// The bound leaves room for eight bytes per element.
		if n > 0 && all > math.MaxInt64/8/n {
			return fmt.Errorf("shape %v overflows", a.Shape)
		}
		all *= max(n, 1)
		if one > math.MaxInt64/c {
			return fmt.Errorf("chunk shape %v overflows", a.chunk)
		}
		one *= c
	}
	return nil
}

// chunkSize returns the number of elements of a chunk, or of a chunk inside a
// shard.
func (a *Array) chunkSize() int64 {
	n := int64(1)
	for _, c := range a.innerChunk() {
		n *= c
	}
	return n
}

// innerChunk returns the shape of the unit of decoding: a chunk, or a chunk inside
// a shard.
func (a *Array) innerChunk() []int64 {
	if a.sharded != nil {
		return a.sharded.chunk
	}
	return a.chunk
}

// finish checks the metadata that depend on each other.
func (a *Array) finish(fill json.RawMessage) error {
	var err error
	if a.fill, a.hasFill, err = a.dtype.parseFill(quoteNonFinite(fill)); err != nil {
		return err
	}
	// The decoded and the filtered chunk must both fit.
	if n := a.chunkSize(); n > maxChunk/int64(max(a.dtype.size, a.stored.size)) {
		return unusedf("its chunks have %d elements, which exceeds the limit of %d bytes", n, int64(maxChunk))
	}
	if err := a.checkDimNames(); err != nil {
		return err
	}
	a.finishAttributes()
	return nil
}

// checkDimNames checks the names of the dimensions.
func (a *Array) checkDimNames() error {
	// CF identifies dimensions by name, so each needs a unique one.
	for i, d := range a.Dims {
		if d == "" || slices.Contains(a.Dims[:i], d) {
			return unusedf("the names of its dimensions %q are not unique", a.Dims)
		}
	}
	if len(a.Dims) != len(a.Shape) {
		if len(a.Dims) > 0 {
			return fmt.Errorf("%d dimensions, but names %q", len(a.Shape), a.Dims)
		}
		return unusedf("its dimensions have no names")
	}
	return nil
}

// setAttributes parses the attributes of an array or group.
func (a *Array) setAttributes(text []byte) (err error) {
	a.Attrs, err = parseAttributes(text)
	return err
}

// parseAttributes converts JSON attributes: strings, numbers and lists of them. CF
// uses no other values, so these are dropped. Several strings are joined by blanks.
func parseAttributes(text []byte) (map[string]cf.Attr, error) {
	out := map[string]cf.Attr{}
	if len(text) == 0 {
		return out, nil
	}
	var all map[string]any
	// Numbers are decoded as texts, because 150.0 is a double and 150 an integer.
	d := json.NewDecoder(bytes.NewReader(quoteNonFinite(text)))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("attributes: %w", err)
	}
	for name, value := range all {
		// A single value is a list of one.
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		var texts []string
		var a cf.Attr
		for _, v := range list {
			switch v := v.(type) {
			case string:
				texts = append(texts, v)
			case json.Number:
				x, err := v.Float64()
				if err != nil {
					return nil, fmt.Errorf("attributes: %s is %s", name, v)
				}
				if strings.ContainsAny(v.String(), ".eE") {
					a.Type = "double"
				}
				a.Numbers = append(a.Numbers, x)
			case bool:
				a.Numbers = append(a.Numbers, map[bool]float64{true: 1}[v])
			}
		}
		if a.Text = strings.Join(texts, " "); len(texts) > 0 {
			a.Numbers, a.Type = nil, ""
		}
		out[name] = a
	}
	return out, nil
}

// finishAttributes adds the attributes that CF expects and Zarr stores elsewhere
// (units of datetime64, fill value), and computes the packing.
func (a *Array) finishAttributes() {
	// datetime64 counts from 1970 (numpy); CF expects a unit with a reference time.
	if a.dtype.unit != "" && a.Attrs["units"].Text == "" {
		units := a.dtype.unit
		if a.dtype.kind == 'M' {
			units += " since 1970-01-01 00:00:00"
		}
		a.Attrs["units"] = cf.Attr{Text: units}
	}
	for _, name := range []string{"_FillValue", "missing_value"} {
		at, ok := a.Attrs[name]
		if !ok {
			continue
		}
		// JSON has no NaN, so fill values are often strings. Any other text is left to
		// package cf.
		if n := parseNumber(at.Text); n != nil {
			a.Attrs[name] = cf.Attr{Numbers: n}
		}
	}
	// In version 2 xarray stores _FillValue as fill_value only. But zarr-python
	// creates arrays with fill value 0 by default, and zero is a valid value,
	// except for packed integers.
	var fill []float64
	_, scaled := a.Attrs["scale_factor"]
	if a.version == 2 && a.hasFill && (a.fill != 0 || scaled && a.dtype.kind != 'f') {
		fill = append(fill, a.fill)
	}
	a.packing = cf.PackingOf(a.cfVariable(), fill...)
}

// parseNumber parses a number that an attribute stores as a string: "NaN",
// "Infinity", or a double in base 64, as xarray writes _FillValue in version 3.
func parseNumber(s string) cf.Floats {
	switch s {
	case "NaN":
		return cf.Floats{math.NaN()}
	case "Infinity":
		return cf.Floats{math.Inf(1)}
	case "-Infinity":
		return cf.Floats{math.Inf(-1)}
	}
	// A float64, little-endian, in base 64.
	if b, err := base64.StdEncoding.DecodeString(s); err == nil && len(b) == 8 {
		return cf.Floats{math.Float64frombits(binary.LittleEndian.Uint64(b))}
	}
	return nil
}

// cfVariable returns the array as a CF variable, without dimensions.
func (a *Array) cfVariable() *cf.Var {
	// The last element of the path is the name, the rest the group.
	group, name := "", a.Path
	if cut := strings.LastIndex(a.Path, "/"); cut >= 0 {
		group, name = a.Path[:cut], a.Path[cut+1:]
	}
	kind := a.dtype.name()
	if a.text {
		kind = "string"
	}
	return &cf.Var{Group: group, Name: name, Type: kind, Attrs: a.Attrs}
}
