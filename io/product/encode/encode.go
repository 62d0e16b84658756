// Package encode describes files for the encoding child: a complete NetCDF file, or
// the messages of one GRIB file. Package product defines the conventions and links
// no library; the child links the libraries and implements no conventions.
//
// The values of a request are its payload, little-endian. A Block identifies bytes
// of it.
package encode

import "fmt"

// Names of the requests.
const (
	KindNetCDF = "encode-netcdf"
	KindGRIB   = "encode-grib"
)

// Block is a range of bytes in the payload of a request.
type Block struct {
	Offset int `json:"offset"`
	Length int `json:"length"`
}

// In returns the bytes of the block.
//
// Errors: a block outside of the payload.
func (b Block) In(payload []byte) ([]byte, error) {
	if b.Offset < 0 || b.Length < 0 || b.Offset > len(payload)-b.Length {
		return nil, fmt.Errorf("bytes %d to %d exceed the payload of %d", b.Offset, b.Offset+b.Length, len(payload))
	}
	return payload[b.Offset : b.Offset+b.Length], nil
}

// Type is the type of a NetCDF variable or attribute.
type Type string

// The types of the classic model in use.
const (
	Float  Type = "float"
	Double Type = "double"
	Int    Type = "int"
	Short  Type = "short" // packed values
	Char   Type = "char"  // strings, one byte per character along the last dimension
)

// Size returns the bytes of one value.
func (t Type) Size() int { return map[Type]int{Float: 4, Double: 8, Int: 4, Short: 2, Char: 1}[t] }

// NetCDF describes a NetCDF-4 file in the classic model.
type NetCDF struct {
	Dimensions []Dimension `json:"dimensions"`
	Attributes []Attribute `json:"attributes"`
	Variables  []Variable  `json:"variables"`
}

// Dimension is an axis of fixed length.
type Dimension struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// Attribute is a text, or numbers of one type: exactly one of the five is set.
// Texts are not empty.
type Attribute struct {
	Name    string    `json:"name"`
	Text    string    `json:"text,omitempty"`
	Floats  []float32 `json:"floats,omitempty"`
	Doubles []float64 `json:"doubles,omitempty"`
	Ints    []int32   `json:"ints,omitempty"`
	Shorts  []int16   `json:"shorts,omitempty"`
}

// Variable is an array over dimensions, given by name; without dimensions it is a
// scalar.
type Variable struct {
	Name       string      `json:"name"`
	Type       Type        `json:"type"`
	Dimensions []string    `json:"dimensions,omitempty"`
	Attributes []Attribute `json:"attributes,omitempty"`
	Chunks     []int       `json:"chunks,omitempty"`  // shape of a chunk; nil: contiguous and uncompressed
	Deflate    int         `json:"deflate,omitempty"` // 1 to 9, with shuffle; 0: uncompressed
	Values     Block       `json:"values"`            // all values, in the order of the dimensions
}

// GRIB describes a file of GRIB messages.
type GRIB struct {
	Bases    []Base    `json:"bases"`
	Messages []Message `json:"messages"`
}

// Base is a message that others are cloned from: an encoded message in the payload,
// or a sample of ecCodes, with keys set in order.
type Base struct {
	Template Block  `json:"template"` // length 0: use Sample
	Sample   string `json:"sample,omitempty"`
	Keys     []Key  `json:"keys,omitempty"`
	Required []Key  `json:"expect,omitempty"` // integer keys that must have these values before Keys are set
	// Preserve lists integer keys that setting Keys may change and must not. They
	// are restored afterwards. Keys that the message lacks are skipped.
	Preserve []string `json:"keep,omitempty"`
}

// Message is one field: a clone of a base, keys set in order, then the values.
type Message struct {
	Base    int    `json:"base"`
	Keys    []Key  `json:"keys,omitempty"`
	Values  Block  `json:"values"` // float32 in the scanning order of the message; NaN is missing
	Packing string `json:"packing"`
	Bits    int    `json:"bits"` // per value
}

// Key sets one key of a message to an integer, a number, a text or missing: exactly
// one of the four is set.
type Key struct {
	Name    string   `json:"name"`
	Long    *int64   `json:"long,omitempty"`
	Float   *float64 `json:"float,omitempty"`
	Text    string   `json:"text,omitempty"`
	Missing bool     `json:"missing,omitempty"`
	// OnlyIf sets the key only if another key has this text.
	OnlyIf      *Condition `json:"only_if,omitempty"`
	SkipUnknown bool       `json:"if_known,omitempty"` // SkipUnknown skips the key in messages that lack it.
}

// Condition holds if a key of the message has a text as its value.
type Condition struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// LongKey sets an integer key.
func LongKey(name string, v int64) Key { return Key{Name: name, Long: &v} }

// FloatKey sets a floating-point key.
func FloatKey(name string, v float64) Key { return Key{Name: name, Float: &v} }

// TextKey sets a string key.
func TextKey(name, v string) Key { return Key{Name: name, Text: v} }

// MissingKey sets a key to missing.
func MissingKey(name string) Key { return Key{Name: name, Missing: true} }
