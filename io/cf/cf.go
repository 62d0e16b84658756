// Package cf says what the variables of a dataset mean, whatever format it is stored
// in: which are coordinates and of what, which fields the others hold, on what grids,
// and how stored numbers become values.
//
// Source: CF conventions 1.8.
package cf

import (
	"encoding/json"
	"strconv"
)

// Header is all of a file but its values.
type Header struct {
	Dims []Dim `json:"dims"`
	Vars []Var `json:"vars"`
	// Attrs are the global attributes, those of groups below the root excluded.
	Attrs map[string]Attr `json:"attrs,omitempty"`
}

// Dim is a dimension.
type Dim struct {
	Name      string `json:"name"`
	Len       int64  `json:"len"`
	Unlimited bool   `json:"unlimited,omitempty"`
	Group     string `json:"group,omitempty"` // "" is the root
}

// Var is a variable.
type Var struct {
	Group string          `json:"group,omitempty"` // "" is the root, "forecast/a" a group in a group
	Name  string          `json:"name"`
	Type  string          `json:"type"` // "float", "short", "char", "string", "user" …
	Dims  []int           `json:"dims"` // positions in Header.Dims
	Attrs map[string]Attr `json:"attrs,omitempty"`
}

// Path is the name with its groups.
func (v *Var) Path() string {
	if v.Group == "" {
		return v.Name
	}
	return v.Group + "/" + v.Name
}

// Numeric says whether values are numbers.
func (v *Var) Numeric() bool { return v.Type != "char" && v.Type != "string" && v.Type != "user" }

// Text is a text attribute, "" if it is absent or a number.
func (v *Var) Text(name string) string { return v.Attrs[name].Text }

// Attr is an attribute: text or numbers.
type Attr struct {
	Text    string `json:"text,omitempty"`
	Numbers Floats `json:"numbers,omitempty"`
}

// Value is the attribute in the form that Grid.Mapping holds: string, float64 or
// []float64.
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

// Floats are numbers that survive JSON, NaN included.
type Floats []float64

// MarshalJSON writes the numbers as strings.
func (f Floats) MarshalJSON() ([]byte, error) {
	s := make([]string, len(f))
	for i, v := range f {
		s[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what MarshalJSON wrote.
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

// Slab is a part of a variable: Start and Count for each dimension, both empty for
// the whole of a scalar.
type Slab struct {
	Var   int     `json:"var"` // position in Header.Vars
	Start []int64 `json:"start"`
	Count []int64 `json:"count"`
}

// Size is the number of values.
func (s Slab) Size() int64 {
	n := int64(1)
	for _, c := range s.Count {
		n *= c
	}
	return n
}
