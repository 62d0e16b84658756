// Package cf interprets the variables of a dataset by the CF conventions, whatever
// format it is stored in. It distinguishes coordinates from data, finds the fields,
// grids and keys of data variables, and unpacks stored numbers.
//
// Files that do not follow CF are common. Where the attributes leave a question
// open, names of dimensions and variables of widely used data sets decide (ERA5,
// CMIP, WeatherBench, IMPROVER).
//
// Source: CF conventions 1.8; the numbers of sections in this package are theirs.
package cf

import (
	"encoding/json"
	"strconv"
)

// Header holds everything of a file except the values. It is what a decoding child sends
// as JSON, and what the parser of Zarr makes of .zarray and .zattrs: the rest of the
// package does not distinguish the formats.
type Header struct {
	// Dims lists the dimensions of all groups.
	Dims []Dim `json:"dims"`
	// Vars lists the variables of all groups.
	Vars []Var `json:"vars"`
	// Attrs holds the global attributes of the root group.
	Attrs map[string]Attr `json:"attrs,omitempty"`
}

// Dim is a dimension.
type Dim struct {
	Name      string `json:"name"`
	Len       int64  `json:"len"`
	Unlimited bool   `json:"unlimited,omitempty"`
	// Group is the group that defines the dimension; "" is the root.
	Group string `json:"group,omitempty"`
}

// Var is a variable. The zero value is a scalar without name.
type Var struct {
	// Group is "" for the root; "forecast/a" is a nested group.
	Group string `json:"group,omitempty"`
	Name  string `json:"name"`
	// Type is the external type: "float", "short", "char", "string", "user" …
	Type string `json:"type"`
	// Dims holds positions in Header.Dims, the slowest first.
	Dims  []int           `json:"dims"`
	Attrs map[string]Attr `json:"attrs,omitempty"`
}

// Path returns the name with its groups, separated by slashes.
func (v *Var) Path() string {
	if v.Group == "" {
		return v.Name
	}
	return v.Group + "/" + v.Name
}

// Numeric reports whether the values are numbers. Variables of other types are labels of
// members at most (CF section 6.1).
func (v *Var) Numeric() bool { return v.Type != "char" && v.Type != "string" && v.Type != "user" }

// Text returns a text attribute; "" if it is absent or numeric.
func (v *Var) Text(name string) string { return v.Attrs[name].Text }

// Attr is the value of an attribute: text or numbers. The zero value is an attribute
// that is absent or has no elements.
type Attr struct {
	// Text is the value of a text attribute; several strings are joined by blanks.
	Text string `json:"text,omitempty"`
	// Numbers is the value of a numeric attribute; nil for text.
	Numbers Floats `json:"numbers,omitempty"`
	// Type is the external type of Numbers, as Var.Type; "" for that of the
	// variable.
	Type string `json:"type,omitempty"`
}

// Value returns the attribute as Grid.Mapping stores it: string, float64 or []float64.
// CF's attributes of grid mappings have all three forms: grid_mapping_name,
// semi_major_axis, standard_parallel.
func (a Attr) Value() any {
	switch len(a.Numbers) {
	case 0:
		return a.Text
	case 1:
		return a.Numbers[0]
	default:
		return []float64(a.Numbers)
	}
}

// Floats holds numbers that JSON encodes as strings, because JSON has no NaN and
// Inf.
type Floats []float64

// MarshalJSON encodes the numbers as strings. Precision -1 writes the shortest text that
// is parsed to the same bits.
func (f Floats) MarshalJSON() ([]byte, error) {
	s := make([]string, len(f))
	for i, v := range f {
		s[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return json.Marshal(s)
}

// UnmarshalJSON decodes the output of MarshalJSON.
//
// Errors: text that is not a list of strings; a string that is no number.
func (f *Floats) UnmarshalJSON(b []byte) error {
	var s []string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*f = make(Floats, len(s))
	for i := range s {
		v, err := strconv.ParseFloat(s[i], 64)
		if err != nil {
			return err
		}
		(*f)[i] = v
	}
	return nil
}

// Slab is a hyperslab of a variable: Start and Count for each dimension. Both are empty
// for a scalar. Positions are those of the file; a slab of more values than its variable
// has is rejected by the reader of the format.
type Slab struct {
	// Var is a position in Header.Vars.
	Var   int     `json:"var"`
	Start []int64 `json:"start"`
	Count []int64 `json:"count"`
}

// Size returns the number of values. It is 1 for a scalar. It may overflow for counts
// that no reader has checked; Header.size checks.
func (s Slab) Size() int64 {
	n := int64(1)
	for _, c := range s.Count {
		n *= c
	}
	return n
}
