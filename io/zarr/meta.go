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

// maxChunk bounds the bytes of one chunk in memory.
const maxChunk = 1 << 30

// Array is one array of a store.
type Array struct {
	Path  string  // "t" or "group/t"
	Shape []int64 // elements along each dimension
	Dims  []string
	Attrs map[string]cf.Attr

	dtype    dtype
	fill     float64
	hasFill  bool
	chunk    []int64
	keys     chunkKeys
	order    []int     // axes in the order in which their elements are stored
	stored   dtype     // of the elements behind all filters
	decoders []decoder // of a chunk, or of one inside a shard
	sharded  *sharding
	packing  cf.Packing
	version  int
	text     bool // it holds texts, which nobody reads: names of places
}

// unusedError is why an array is sound and cannot be used.
type unusedError struct{ reason string }

func (e *unusedError) Error() string { return e.reason }

func unusedf(format string, args ...any) error { return &unusedError{fmt.Sprintf(format, args...)} }

// chunkKeys makes the keys of chunks.
type chunkKeys struct {
	prefix    string // "group/t/" or with the "c" of version 3
	separator string
	scalar    string // of the one chunk of an array without dimensions
}

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

// unmarshal reads JSON, also that of writers who put NaN and Infinity in it, which then
// are texts.
func unmarshal(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err == nil {
		return nil
	}
	return json.Unmarshal(quoteNonFinite(text), v)
}

// quoteNonFinite puts quotes around the words NaN, Infinity and -Infinity outside of texts.
func quoteNonFinite(text []byte) []byte {
	var out bytes.Buffer
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
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

// namedConfig is a codec or another extension point: in version 2 the name is "id" and the
// configuration lies beside it.
type namedConfig struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Configuration json.RawMessage `json:"configuration"`
}

// parseArray2 reads the .zarray and .zattrs of an array.
//
// Errors: *unusedError; others for texts that contradict themselves.
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
	if m.Format != 2 {
		return nil, fmt.Errorf("zarr_format is %d in a .zarray", m.Format)
	}
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
	var xarray struct {
		Dims []string `json:"_ARRAY_DIMENSIONS"`
	}
	if len(attrs) > 0 && unmarshal(attrs, &xarray) == nil {
		a.Dims = xarray.Dims
	}
	delete(a.Attrs, "_ARRAY_DIMENSIONS")
	var name string
	if json.Unmarshal(m.Dtype, &name) != nil {
		return a, unusedf("it holds no numbers but type %.60s", m.Dtype)
	}
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
	switch m.Order {
	case "C", "":
	case "F":
		slices.Reverse(a.order)
	default:
		return nil, fmt.Errorf("order is %q", m.Order)
	}
	a.stored = a.dtype
	if len(m.Compressor) > 0 && string(m.Compressor) != "null" {
		m.Filters = append(m.Filters, m.Compressor)
	}
	for _, conf := range m.Filters {
		var c namedConfig
		if err := json.Unmarshal(conf, &c); err != nil {
			return nil, err
		}
		s, err := newDecoder(c.ID, conf, &a.stored)
		if err != nil {
			return a, unusedf("%v", err)
		}
		a.decoders = append(a.decoders, s)
	}
	return a, a.finish(m.Fill)
}

// parseArray3 reads the zarr.json of an array.
//
// Errors: *unusedError; others for texts that contradict themselves.
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
	if err := checkMustUnderstand(text); err != nil {
		return a, err
	}
	if m.Grid.Name != "regular" {
		return a, unusedf("its chunk grid %.60q is not supported", m.Grid.Name)
	}
	if len(m.Transformers) > 0 {
		return a, unusedf("it has storage transformers")
	}
	separator := m.Keys.Configuration.Separator
	switch m.Keys.Name {
	case "default":
		if separator == "" {
			separator = "/"
		}
		a.keys = chunkKeys{path + "/c" + separator, separator, ""}
		if len(a.Shape) == 0 {
			a.keys.prefix = path + "/c"
		}
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

// knownMembers3 are the members of an array's zarr.json that are understood.
var knownMembers3 = []string{"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes", "dimension_names",
	"storage_transformers", "consolidated_metadata"}

// checkMustUnderstand refuses arrays with members that readers must understand and we do not.
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
			return unusedf("its metadata has %.60q, which is not understood", name)
		}
	}
	return nil
}

// parseCodecs3 reads the codecs of version 3: those that change the order of axes or the
// elements, one that makes bytes, those that make bytes of bytes.
func (a *Array) parseCodecs3(list []json.RawMessage) error {
	a.order = make([]int, len(a.Shape))
	for i := range a.order {
		a.order[i] = i
	}
	a.stored = a.dtype
	serialised := false
	for _, raw := range list {
		var c namedConfig
		if json.Unmarshal(raw, &c.Name) != nil { // a name may stand alone
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
		}
		switch {
		case c.Name == "transpose" && !serialised:
			var t struct {
				Order []int `json:"order"`
			}
			if err := json.Unmarshal(c.Configuration, &t); err != nil {
				return unusedf("its codec transpose is not understood")
			}
			if !isPermutation(t.Order, len(a.order)) {
				return fmt.Errorf("the order %v of a transposition of %d axes", t.Order, len(a.order))
			}
			next := make([]int, len(a.order))
			for i, k := range t.Order {
				next[i] = a.order[k]
			}
			a.order = next
		case c.Name == "bytes" && !serialised:
			var b struct {
				Endian string `json:"endian"`
			}
			if len(c.Configuration) > 0 {
				if err := json.Unmarshal(c.Configuration, &b); err != nil {
					return err
				}
			}
			if b.Endian != "little" && b.Endian != "big" && a.stored.size > 1 {
				return fmt.Errorf("the order of bytes is %q", b.Endian)
			}
			if b.Endian == "big" {
				if len(a.decoders) > 0 {
					return unusedf("its elements are filtered, and stored with the most significant byte first")
				}
				a.stored.big, a.dtype.big = true, true
			}
			serialised = true
		case c.Name == "sharding_indexed" && !serialised:
			if len(a.decoders) > 0 || !slices.IsSorted(a.order) {
				return unusedf("its shards are transposed or filtered")
			}
			if err := a.parseSharding(c.Configuration); err != nil {
				return err
			}
			serialised = true
		default:
			if a.sharded != nil {
				return unusedf("its shards are compressed as a whole")
			}
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
		return errors.New("no codec makes bytes of the elements")
	}
	return nil
}

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

// checkShape checks shape and chunks.
func (a *Array) checkShape() error {
	if len(a.Shape) != len(a.chunk) {
		return fmt.Errorf("%d dimensions, and chunks of %d", len(a.Shape), len(a.chunk))
	}
	all, one := int64(1), int64(a.dtype.size)
	for i, n := range a.Shape {
		c := a.chunk[i]
		if n < 0 || c < 1 {
			return fmt.Errorf("shape %v, chunks %v", a.Shape, a.chunk)
		}
		if n > 0 && all > math.MaxInt64/8/n {
			return fmt.Errorf("shape %v has more elements than can be counted", a.Shape)
		}
		all *= max(n, 1)
		if one > math.MaxInt64/c {
			return fmt.Errorf("chunks %v have more elements than can be counted", a.chunk)
		}
		one *= c
	}
	return nil
}

// chunkSize is the number of elements of a chunk, or of one inside a shard.
func (a *Array) chunkSize() int64 {
	n := int64(1)
	for _, c := range a.innerChunk() {
		n *= c
	}
	return n
}

// innerChunk is the shape of what is decoded at once.
func (a *Array) innerChunk() []int64 {
	if a.sharded != nil {
		return a.sharded.chunk
	}
	return a.chunk
}

// finish checks what all parts together must be.
func (a *Array) finish(fill json.RawMessage) error {
	var err error
	if a.fill, a.hasFill, err = a.dtype.parseFill(quoteNonFinite(fill)); err != nil {
		return err
	}
	if n := a.chunkSize(); n > maxChunk/int64(max(a.dtype.size, a.stored.size)) {
		return unusedf("its chunks have %d elements, more than %d bytes", n, int64(maxChunk))
	}
	if err := a.checkDimNames(); err != nil {
		return err
	}
	a.finishAttributes()
	return nil
}

// checkDimNames checks those of the dimensions.
func (a *Array) checkDimNames() error {
	for i, d := range a.Dims {
		if d == "" || slices.Contains(a.Dims[:i], d) {
			return unusedf("its dimensions %q have no names of their own", a.Dims)
		}
	}
	if len(a.Dims) != len(a.Shape) {
		if len(a.Dims) > 0 {
			return fmt.Errorf("%d dimensions, and names %q", len(a.Shape), a.Dims)
		}
		return unusedf("its dimensions have no names")
	}
	return nil
}

// setAttributes reads the attributes of an array or group.
func (a *Array) setAttributes(text []byte) (err error) {
	a.Attrs, err = parseAttributes(text)
	return err
}

// parseAttributes takes texts, numbers and lists of them; other values say nothing to CF.
func parseAttributes(text []byte) (map[string]cf.Attr, error) {
	out := map[string]cf.Attr{}
	if len(text) == 0 {
		return out, nil
	}
	var all map[string]any
	if err := unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("attributes: %w", err)
	}
	for name, value := range all {
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
			case float64:
				a.Numbers = append(a.Numbers, v)
			case bool:
				a.Numbers = append(a.Numbers, map[bool]float64{true: 1}[v])
			}
		}
		if a.Text = strings.Join(texts, " "); len(texts) > 0 {
			a.Numbers = nil
		}
		out[name] = a
	}
	return out, nil
}

// finishAttributes adds what CF says in attributes and Zarr elsewhere, and finds the
// packing.
func (a *Array) finishAttributes() {
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
		if at.Text != "" {
			at = cf.Attr{Numbers: parseNumber(at.Text)}
		}
		for i := range at.Numbers {
			at.Numbers[i] = a.dtype.round(at.Numbers[i])
		}
		a.Attrs[name] = at
	}
	// In version 2 xarray keeps _FillValue in fill_value and nowhere else. But zarr-python
	// by itself makes arrays with the fill value 0, and zero is a value, unless it is a
	// packed number.
	var fill []float64
	_, scaled := a.Attrs["scale_factor"]
	if a.version == 2 && a.hasFill && (a.fill != 0 || scaled && a.dtype.kind != 'f') {
		fill = append(fill, a.fill)
	}
	a.packing = cf.PackingOf(a.cfVariable(), fill...)
}

// parseNumber reads a number that an attribute has as text: "NaN", or the eight bytes of a
// double in base 64, as xarray writes _FillValue in version 3.
func parseNumber(s string) cf.Floats {
	switch s {
	case "NaN":
		return cf.Floats{math.NaN()}
	case "Infinity":
		return cf.Floats{math.Inf(1)}
	case "-Infinity":
		return cf.Floats{math.Inf(-1)}
	}
	if b, err := base64.StdEncoding.DecodeString(s); err == nil && len(b) == 8 {
		return cf.Floats{math.Float64frombits(binary.LittleEndian.Uint64(b))}
	}
	return nil
}

// cfVariable is the array without its dimensions as CF sees it.
func (a *Array) cfVariable() *cf.Var {
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
