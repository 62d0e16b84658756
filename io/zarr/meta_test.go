package zarr

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// document3 is the zarr.json of a 4×6 array without shards, with changes.
func document3(change ...string) string {
	return strings.NewReplacer(change...).Replace(`{"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float32",
 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "chunk_key_encoding": {"name": "default"}, "fill_value": "NaN",
 "dimension_names": ["y", "x"], "attributes": {"units": "K"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}`)
}

// TestOddMetadata3: invalid metadata of version 3 are errors; valid metadata that are not supported are reasons, with what is not supported.
func TestOddMetadata3(t *testing.T) {
	const bytesCodec = `{"name": "bytes", "configuration": {"endian": "little"}}`
	for _, c := range []struct {
		text, word string
		unused     bool // valid, but not used
	}{
		{"{", "unexpected end", false},
		{document3(`"zarr_format": 3`, `"zarr_format": 2`), "zarr_format is 2 in a zarr.json", false},
		{document3(`"zarr_format": 3`, `"zarr_format": 4`), "zarr_format is 4 in a zarr.json", false},
		{document3(`{"units": "K"}`, `["K"]`), "attributes", false},
		{document3(`"name": "regular"`, `"name": "rectangular"`), `chunk grid "rectangular"`, true},
		{document3(`{"name": "default"}`, `{"name": "hilbert"}`), `chunk keys "hilbert"`, true},
		{document3(`{"name": "default"}`, `{"name": "default", "configuration": {"separator": "-"}}`), `separator of chunk keys is "-"`, false},
		{document3(`{"name": "default"}`, `{"name": "v2", "configuration": {"separator": ":"}}`), `separator of chunk keys is ":"`, false},
		{document3(`"float32"`, `"complex64"`), "complex64", true},
		{document3(`[4, 6]`, `[4, -6]`), "shape [4 -6]", false},
		{document3(`[2, 3]`, `[2, 0]`), "chunks [2 0]", false},
		{document3(`[2, 3]`, `[2]`), "2 dimensions, but chunks of 1", false},
		{document3(`[2, 3]`, `[1073741824, 3]`), "its chunks have 3221225472 elements", true},
		{document3(bytesCodec, ``), "no codec converts elements to bytes", false},
		{document3(bytesCodec, `7`), "cannot unmarshal", false},
		{document3(bytesCodec, bytesCodec+`,`+bytesCodec), `codec "bytes" is not supported`, true},
		{document3(bytesCodec, bytesCodec+`,{"name": "transpose", "configuration": {"order": [1, 0]}}`), `codec "transpose" is not supported`, true},
		{document3(bytesCodec, bytesCodec+`,{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3]}}`), `codec "sharding_indexed" is not supported`, true},
		{document3(bytesCodec, bytesCodec+`,{"name": "numcodecs.shuffle", "configuration": {"elementsize": "four"}}`), `its filter {"elementsize": "four"} is not understood`, true},
		{document3(bytesCodec, `{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}}`), "chunks [2 2] do not divide shards [2 3]", false},
		{document3(bytesCodec, bytesCodec+`,{"name": "lzma"}`), `codec "lzma" is not supported`, true},
		{document3(bytesCodec, `{"name": "transpose", "configuration": {"order": "F"}},`+bytesCodec), "codec transpose is invalid", true},
		{document3(bytesCodec, `{"name": "transpose", "configuration": {"order": [0, 0]}},`+bytesCodec), "order [0 0] for 2 axes", false},
		{document3(bytesCodec, `{"name": "transpose", "configuration": {"order": [0, 1, 2]}},`+bytesCodec), "order [0 1 2] for 2 axes", false},
		{document3(bytesCodec, `{"name": "transpose", "configuration": {"order": [1]}},`+bytesCodec), "order [1] for 2 axes", false},
		{document3(`"little"`, `"middle"`), `endian is "middle"`, false},
		{document3(bytesCodec, `"bytes"`), `endian is ""`, false},
		{document3(bytesCodec, `{"name": "bytes", "configuration": []}`), "cannot unmarshal", false},
		{document3(`"NaN"`, `"soon"`), "fill value", false},
		{document3(`["y", "x"]`, `["y", "y"]`), "are not unique", true},
		{document3(`["y", "x"]`, `["y", null]`), "are not unique", true},
		{document3(`["y", "x"]`, `["y"]`), `2 dimensions, but names ["y"]`, false},
		{document3(`["y", "x"]`, `[]`), "have no names", true},
	} {
		_, err := parseArray3("t", []byte(c.text))
		var unused *unusedError
		if err == nil || errors.As(err, &unused) != c.unused || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s\n%v, want %q, unused: %v", c.text, err, c.word, c.unused)
		}
	}
}

// TestKeys3: names of chunks of version 3, by both encodings and separators, also of an array without dimensions; and what may be left out.
func TestKeys3(t *testing.T) {
	scalar := []string{`[4, 6]`, `[]`, `[2, 3]`, `[]`, `["y", "x"]`, `[]`}
	for _, c := range []struct {
		change []string
		want   string
	}{
		{nil, "g/t/c/1/12"},
		{[]string{`{"name": "default"}`, `{"name": "default", "configuration": {"separator": "."}}`}, "g/t/c.1.12"},
		{[]string{`{"name": "default"}`, `{"name": "v2"}`}, "g/t/1.12"},
		{[]string{`{"name": "default"}`, `{"name": "v2", "configuration": {"separator": "/"}}`}, "g/t/1/12"},
		{scalar, "g/t/c"},
		{append([]string{`{"name": "default"}`, `{"name": "v2"}`}, scalar...), "g/t/0"},
	} {
		a, err := parseArray3("g/t", []byte(document3(c.change...)))
		if err != nil && len(c.change) < 6 {
			t.Fatal(err)
		}
		index := []int64{1, 12}
		if len(a.Shape) == 0 {
			index = nil
		}
		if got := a.keys.key(index); got != c.want {
			t.Errorf("%q: %s, want %s", c.change, got, c.want)
		}
	}
	for name, change := range map[string][]string{"one byte": {`"float32"`, `"uint8"`, `"NaN"`, `3`, `{"name": "bytes", "configuration": {"endian": "little"}}`, `{"name": "bytes"}`},
		"a name alone": {`"float32"`, `"uint8"`, `"NaN"`, `3`, `{"name": "bytes", "configuration": {"endian": "little"}}`, `"bytes"`}} {
		if a, err := parseArray3("t", []byte(document3(change...))); err != nil || a.fill != 3 || !a.hasFill {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, err := parseArray3("t", []byte(document3(`["y", "x"]`, `["y", null]`))); err == nil || !reflect.DeepEqual(a.Dims, []string{"y", ""}) {
		t.Errorf("a dimension without a name: %v", err)
	}
}

// TestTranspositions: two transpositions compose. Of a 2×3×4 array the first makes axes (2, 0, 1), the second (1, 2, 0) of these.
func TestTranspositions(t *testing.T) {
	text := document3(`[4, 6]`, `[2, 3, 4]`, `[2, 3]`, `[2, 3, 4]`, `["y", "x"]`, `["z", "y", "x"]`, `"codecs": [`,
		`"codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, {"name": "transpose", "configuration": {"order": [2, 1, 0]}},`)
	a, err := parseArray3("t", []byte(text))
	if err != nil || !reflect.DeepEqual(a.order, []int{1, 0, 2}) {
		t.Errorf("%v, %v", a.order, err)
	}
}

// TestOddMetadata2: what version 2 may leave out, and what it may not hold.
func TestOddMetadata2(t *testing.T) {
	document := func(change ...string) []byte {
		return []byte(strings.NewReplacer(change...).Replace(`{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<f4", "compressor": null, "fill_value": "NaN", "order": "C", "filters": null}`))
	}
	dims := []byte(`{"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}`)
	for _, c := range []struct{ text, word string }{
		{"{", "unexpected end"},
		{string(document(`"zarr_format": 2`, `"zarr_format": 3`)), "zarr_format is 3 in a .zarray"},
		{string(document(`"order"`, `"dimension_separator": "-", "order"`)), `dimension_separator is "-"`},
		{string(document(`"filters": null`, `"filters": [7]`)), "cannot unmarshal"},
	} {
		if _, err := parseArray2("t", []byte(c.text), dims); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v, want %q", c.text, err, c.word)
		}
	}
	if _, err := parseArray2("t", document(), []byte("[1]")); err == nil || !strings.Contains(err.Error(), "attributes") {
		t.Errorf("attributes that are a list: %v", err)
	}
	for _, c := range []struct {
		text  []byte
		key   string
		order []int
	}{
		{document(), "g/t/1.12", []int{0, 1}}, {document(`, "order": "C"`, ""), "g/t/1.12", []int{0, 1}}, {document(`"C"`, `"F"`), "g/t/1.12", []int{1, 0}},
		{document(`"order"`, `"dimension_separator": "/", "order"`), "g/t/1/12", []int{0, 1}}, {document(`, "compressor": null`, ""), "g/t/1.12", []int{0, 1}},
	} {
		a, err := parseArray2("g/t", c.text, dims)
		if err != nil || a.keys.key([]int64{1, 12}) != c.key || !reflect.DeepEqual(a.order, c.order) || !reflect.DeepEqual(a.Dims, []string{"y", "x"}) || len(a.decoders) != 0 {
			t.Errorf("%s: %v, %+v", c.text, err, a)
			continue
		}
		if _, kept := a.Attrs["_ARRAY_DIMENSIONS"]; kept || a.Attrs["units"].Text != "K" {
			t.Errorf("attributes %v", a.Attrs)
		}
	}
	text := document(`"<f4"`, `"<U8"`, `"NaN"`, `""`)
	if a, err := parseArray2("t", text, dims); err != nil || !a.text || a.cfVariable().Type != "string" {
		t.Errorf("texts: %v", err)
	}
	if _, err := parseArray2("t", text, nil); err == nil || !strings.Contains(err.Error(), "have no names") {
		t.Errorf("texts without names of dimensions: %v", err)
	}
	if a, err := parseArray2("0", []byte(`{"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<f4"}`), nil); err != nil || a.keys.key(nil) != "0/0" {
		t.Errorf("an array without dimensions: %v", err)
	}
}

// TestSizes: the largest shapes and chunks that are accepted, and the smallest that are not.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		shape, chunk []int64
		word         string
	}{
		{[]int64{math.MaxInt64 / 8}, []int64{1}, ""}, {[]int64{math.MaxInt64/8 + 1}, []int64{1}, "overflows"}, {[]int64{1 << 30, 1 << 29}, []int64{1, 1}, ""}, {[]int64{1 << 30, 1 << 30}, []int64{1, 1}, "overflows"},
		{[]int64{0, 5}, []int64{1, 1}, ""}, {[]int64{0, math.MaxInt64}, []int64{1, 1}, "overflows"}, {[]int64{-1}, []int64{1}, "shape [-1]"}, {[]int64{1}, []int64{0}, "chunks [0]"},
		{[]int64{1}, []int64{math.MaxInt64 / 4}, ""}, {[]int64{1}, []int64{math.MaxInt64/4 + 1}, "overflows"}, {[]int64{1, 1}, []int64{1 << 31, 1 << 30}, "overflows"}, {[]int64{1, 1}, []int64{1 << 30, 1 << 30}, ""},
	} {
		a := &Array{Shape: c.shape, chunk: c.chunk}
		a.dtype.size = 4
		if err := a.checkShape(); (err == nil) != (c.word == "") || err != nil && !strings.Contains(err.Error(), c.word) {
			t.Errorf("shape %d, chunks %d: %v, want %q", c.shape, c.chunk, err, c.word)
		}
	}
	at, beyond := document3(`[2, 3]`, `[268435456, 1]`), document3(`[2, 3]`, `[268435457, 1]`) // 1 GiB of float32
	if _, err := parseArray3("t", []byte(at)); err != nil {
		t.Error(err)
	}
	if _, err := parseArray3("t", []byte(beyond)); err == nil || !strings.Contains(err.Error(), "exceeds the limit of 1073741824 bytes") {
		t.Error(err)
	}
}

// TestAttributes: attributes of JSON as CF has them.
func TestAttributes(t *testing.T) {
	got, err := parseAttributes([]byte(`{"text": "a", "texts": ["a", "b"], "integer": 150, "double": 150.0, "large": 1e20, "list": [1, 2.5], "mixed": [1, "a"], "yes": true, "no": false, "object": {"a": 1}, "nothing": null,
 "nan": NaN, "escaped": "a\" NaN \\", "after": [-Infinity, Infinity]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		text, kind string
		numbers    []float64
	}{
		"text": {"a", "", nil}, "texts": {"a b", "", nil}, "integer": {"", "", []float64{150}}, "double": {"", "double", []float64{150}}, "large": {"", "double", []float64{1e20}}, "list": {"", "double", []float64{1, 2.5}},
		"mixed": {"a", "", nil}, "yes": {"", "", []float64{1}}, "no": {"", "", []float64{0}}, "object": {"", "", nil}, "nothing": {"", "", nil}, "nan": {"NaN", "", nil}, "escaped": {`a" NaN \`, "", nil}, "after": {"-Infinity Infinity", "", nil},
	} {
		if a, ok := got[name]; !ok || a.Text != want.text || a.Type != want.kind || !reflect.DeepEqual([]float64(a.Numbers), want.numbers) {
			t.Errorf("%s: %+v, want %+v", name, a, want)
		}
	}
	if a, err := parseAttributes(nil); err != nil || a == nil || len(a) != 0 {
		t.Errorf("none: %v, %v", a, err)
	}
	if _, err := parseAttributes([]byte(`{"a": 1e999}`)); err == nil || !strings.Contains(err.Error(), "a is 1e999") {
		t.Errorf("a number beyond float64: %v", err)
	}
	if text := string(quoteNonFinite([]byte(`[NaN, "NaN", -Infinity`))); text != `["NaN", "NaN", "-Infinity"` {
		t.Errorf("%s", text)
	}
	var x []any
	if err := unmarshal([]byte(`[Infinity, 1]`), &x); err != nil || x[0] != "Infinity" || x[1] != 1.0 {
		t.Errorf("%v, %v", x, err)
	}
}

// TestFillAttributes: fill values that JSON holds as text are numbers, and values of arrays that are missing by them.
func TestFillAttributes(t *testing.T) {
	coded := base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, math.Float64bits(-999.5)))
	for text, want := range map[string][]float64{"Infinity": {math.Inf(1)}, "-Infinity": {math.Inf(-1)}, coded: {-999.5}, "AAAA": nil, "none": nil} {
		if got := parseNumber(text); !reflect.DeepEqual([]float64(got), want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if got := parseNumber("NaN"); len(got) != 1 || got[0] == got[0] {
		t.Errorf("NaN: %v", got)
	}
	array := func(dtype, fill, attributes string) map[string]string {
		return map[string]string{
			"t/.zarray": `{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "` + dtype + `", "compressor": null, "fill_value": ` + fill + `, "order": "C", "filters": null}`,
			"t/.zattrs": `{"_ARRAY_DIMENSIONS": ["y", "x"]` + attributes + `}`,
		}
	}
	bits := func(x float32) string { return fmt.Sprint(math.Float32bits(x)) }
	for name, c := range map[string]struct {
		texts   map[string]string
		missing []int // of the elements of the first chunk: 0, 1, 2
	}{
		"no fill value":                   {array("<f4", "null", ""), nil},
		"the fill value of the array":     {array("<f4", "1.0", ""), []int{1}},
		"zero, which is a valid value":    {array("<f4", "0.0", ""), nil},
		"zero of packed integers":         {array("<i4", "0", `, "scale_factor": 2.0`), []int{0}},
		"zero of integers":                {array("<i4", "0", ""), nil},
		"zero of scaled floats":           {array("<f4", "0.0", `, "scale_factor": 2.0`), nil},
		"another of integers":             {array("<i4", bits(2), ""), []int{2}},
		"_FillValue of the attributes":    {array("<f4", "null", `, "_FillValue": 2.0`), []int{2}},
		"missing_value of the attributes": {array("<f4", "null", `, "missing_value": 1.0`), []int{1}},
		"_FillValue in base 64":           {array("<f4", "null", `, "_FillValue": "`+base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, math.Float64bits(2)))+`"`), []int{2}},
	} {
		v, err := readSmall(small(t, 2, c.texts), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var missing []int
		for i, x := range v[:3] {
			if x != x {
				missing = append(missing, i)
			}
		}
		if !reflect.DeepEqual(missing, c.missing) {
			t.Errorf("%s: %v are missing of %v, want %v", name, missing, v[:3], c.missing)
		}
	}
}

// TestVariableNames: the path of an array in a group is its group and its name.
func TestVariableNames(t *testing.T) {
	for path, want := range map[string][2]string{"t": {"", "t"}, "g/t": {"g", "t"}, "g/h/t": {"g/h", "t"}} {
		if v := (&Array{Path: path}).cfVariable(); v.Group != want[0] || v.Name != want[1] || v.Type == "string" {
			t.Errorf("%s: group %q, name %q", path, v.Group, v.Name)
		}
	}
}

// TestUnits: units of times of numpy are those of CF, unless the store states others.
func TestUnits(t *testing.T) {
	for _, c := range []struct{ dtype, stated, want string }{
		{"<M8[s]", "", "seconds since 1970-01-01 00:00:00"}, {"<m8[h]", "", "hours"}, {"<M8[s]", `, "units": "days since 2000-01-01"`, "days since 2000-01-01"}, {"<i8", "", ""},
	} {
		a, err := parseArray2("t", []byte(`{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "`+c.dtype+`", "fill_value": null, "order": "C"}`), []byte(`{"_ARRAY_DIMENSIONS": ["time"]`+c.stated+`}`))
		if err != nil || a.Attrs["units"].Text != c.want {
			t.Errorf("%s: %v, units %q, want %q", c.dtype, err, a.Attrs["units"].Text, c.want)
		}
	}
}

// TestShardsOf: shards that are transposed, filtered or compressed as a whole are not supported, and said so.
func TestShardsOf(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(small(t, 3, nil), "t", "zarr.json"))
	if err != nil {
		t.Fatal(err)
	}
	for change, word := range map[[2]string]string{
		{`"codecs": [{"name": "sharding_indexed"`, `"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "sharding_indexed"`}: "transposed or filtered",
		{`}]}}]}`, `}]}}, {"name": "gzip", "configuration": {"level": 1}}]}`}:                                                                           "compressed as a whole",
		{`"codecs": [{"name": "sharding_indexed"`, `"codecs": [{"name": "transpose", "configuration": {"order": [0, 1]}}, {"name": "sharding_indexed"`}: "",
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%q is not in\n%s", change[0], text)
		}
		s, err := Open(small(t, 3, map[string]string{"t/zarr.json": changed}), Options{})
		if err != nil {
			t.Errorf("%v (exit %d)", err, exit.CodeOf(err))
			continue
		}
		if word == "" && len(s.Unused) > 0 || word != "" && (len(s.Unused) != 1 || !strings.Contains(s.Unused[0].Reason, word)) {
			t.Errorf("%q: unused %v, want %q", change[1], s.Unused, word)
		}
		s.Close()
	}
}
