// Package encode is what the writers of package product ask the encoding child
// for: a whole NetCDF file, or the messages of one GRIB file, described as data.
// The child knows the libraries and no conventions; product knows the
// conventions and no library.
//
// The numbers of a request travel as its payload, little-endian; a Block says
// which bytes of it.
package encode

import "fmt"

// The names of the jobs in the child's table.
const (
	KindNetCDF = "encode-netcdf"
	KindGRIB   = "encode-grib"
)

// Block is a run of bytes in the payload of a request.
type Block struct {
	Offset int `json:"offset"`
	Length int `json:"length"`
}

// In gives the block's bytes of a payload.
//
// Errors: if the block is not inside it.
func (b Block) In(payload []byte) ([]byte, error) {
	if b.Offset < 0 || b.Length < 0 || b.Offset > len(payload)-b.Length {
		return nil, fmt.Errorf("bytes %d to %d of a payload of %d", b.Offset, b.Offset+b.Length, len(payload))
	}
	return payload[b.Offset : b.Offset+b.Length], nil
}

// Type is the type of a NetCDF variable or attribute.
type Type string

// The types of the classic model that we write.
const (
	Float  Type = "float"
	Double Type = "double"
	Int    Type = "int"
	Short  Type = "short" // packed values
	Char   Type = "char"  // texts, one byte a character, along the last dimension
)

// Size is the number of bytes of one value.
func (t Type) Size() int { return map[Type]int{Float: 4, Double: 8, Int: 4, Short: 2, Char: 1}[t] }

// NetCDF describes a NetCDF-4 classic model file.
type NetCDF struct {
	Path       string      `json:"path"` // written to directly; an existing file is truncated
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

// Variable is an array over dimensions, by name; none makes it a scalar.
type Variable struct {
	Name       string      `json:"name"`
	Type       Type        `json:"type"`
	Dimensions []string    `json:"dimensions,omitempty"`
	Attributes []Attribute `json:"attributes,omitempty"`
	Chunks     []int       `json:"chunks,omitempty"`  // nil: stored in one piece, uncompressed
	Deflate    int         `json:"deflate,omitempty"` // 1 to 9, with shuffle; 0: not compressed
	Values     Block       `json:"values"`            // all of the variable, in the order of its dimensions
}

// GRIB describes a file of GRIB messages.
type GRIB struct {
	Path     string    `json:"path"` // written to directly; an existing file is truncated
	Bases    []Base    `json:"bases"`
	Messages []Message `json:"messages"`
}

// Base is a message that others are cloned from: an encoded message in the
// payload, or a sample of the library, with keys set in order.
type Base struct {
	Template Block  `json:"template"` // length 0: from the sample
	Sample   string `json:"sample,omitempty"`
	Keys     []Key  `json:"keys,omitempty"`
	Required []Key  `json:"expect,omitempty"` // whole numbers that must be there before Keys are set
	// Preserve names whole numbers that setting Keys may change and must not: they are
	// put back afterwards. Those that the message has not are passed over.
	Preserve []string `json:"keep,omitempty"`
}

// Message is one field: a clone of a base, keys set in order, then the values.
type Message struct {
	Base    int    `json:"base"`
	Keys    []Key  `json:"keys,omitempty"`
	Values  Block  `json:"values"` // float32 in the order of the message's scanning mode; NaN is missing
	Packing string `json:"packing"`
	Bits    int    `json:"bits"` // per value
}

// Key sets one key of a message to a whole number, a number, a text or missing: exactly
// one of the four is set.
type Key struct {
	Name    string   `json:"name"`
	Long    *int64   `json:"long,omitempty"`
	Float   *float64 `json:"float,omitempty"`
	Text    string   `json:"text,omitempty"`
	Missing bool     `json:"missing,omitempty"`
	// OnlyIf sets the key only where another key has this text.
	OnlyIf *Condition `json:"only_if,omitempty"`
	// SkipUnknown lets a message without the key go on without it.
	SkipUnknown bool `json:"if_known,omitempty"`
}

// Condition holds where a key of the message has a text as its value.
type Condition struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// LongKey sets a whole number.
func LongKey(name string, v int64) Key { return Key{Name: name, Long: &v} }

// FloatKey sets a number.
func FloatKey(name string, v float64) Key { return Key{Name: name, Float: &v} }

// TextKey sets a text.
func TextKey(name, v string) Key { return Key{Name: name, Text: v} }

// MissingKey sets a key to missing.
func MissingKey(name string) Key { return Key{Name: name, Missing: true} }

// FileResult is the result of both jobs.
type FileResult struct {
	Bytes int64 `json:"bytes"` // size of the file
}
