package ensemble

import (
	"strings"
	"testing"
)

// With a duplicate name or GRIB code, a reader could confuse two fields.
func TestVariablesAreDistinct(t *testing.T) {
	type code struct {
		discipline, category, number int
		level                        Level
	}
	names, codes, table128 := map[string]bool{}, map[code]string{}, map[int]string{}
	for _, v := range Variables {
		if names[v.Name] || names[v.Identifier] {
			t.Errorf("%s or %s is duplicated", v.Name, v.Identifier)
		}
		names[v.Name], names[v.Identifier] = true, true
		if first := v.Identifier[0]; first < 'a' || first > 'z' {
			t.Errorf("%s: identifier %q does not start with a letter", v.Name, v.Identifier)
		}
		c := code{v.Discipline, v.Category, v.Number, v.Level}
		if other, dup := codes[c]; dup {
			t.Errorf("%s and %s have one GRIB2 code", v.Name, other)
		}
		codes[c] = v.Name
		if other, dup := table128[v.Table128]; dup {
			t.Errorf("%s and %s have one GRIB1 number", v.Name, other)
		}
		table128[v.Table128] = v.Name
		if v.StandardName == "" || v.LongName == "" || v.Unit == "" || strings.Contains(v.Unit, "/") {
			t.Errorf("%s: incomplete, or a unit that is not spelt with exponents: %+v", v.Name, v)
		}
	}
}

func TestVariableNamed(t *testing.T) {
	v, ok := VariableNamed("2t")
	if !ok || v.Identifier != "t2m" || v.OnManyLevels() || v.Level.String() != "2m" {
		t.Errorf("2t: %+v %v", v, ok)
	}
	if v, ok := VariableNamed("gh"); !ok || !v.OnManyLevels() {
		t.Errorf("gh: %+v %v", v, ok)
	}
	if _, ok := VariableNamed("T"); ok {
		t.Error("names are case sensitive; T was found")
	}
}
