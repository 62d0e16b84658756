package cf

import (
	"fmt"
	"math"
	"strings"
)

// Packing is how stored numbers become values.
type Packing struct {
	Missing            []float64 // stored numbers that are no values
	ValidMin, ValidMax float64   // nor are those below and above
	Scale, Offset      float64
	UnsignedOffset     float64 // added to negative numbers, 0 if they are signed
	Err                error   // attributes from which no number can follow
}

// PackingOf reads the attributes of CF sections 8.1 and 2.5.1. Where a variable has no
// _FillValue the numbers in fill are missing: what its format puts where nobody wrote.
func PackingOf(v *Var, fill ...float64) Packing {
	p := Packing{ValidMin: math.Inf(-1), ValidMax: math.Inf(1), Scale: 1}
	num := func(name string) []float64 { return v.Attrs[name].Numbers }
	if own := num("_FillValue"); len(own) > 0 {
		p.Missing = append(p.Missing, own[0])
	} else {
		p.Missing = append(p.Missing, fill...)
	}
	p.Missing = append(p.Missing, num("missing_value")...)
	if r := num("valid_range"); len(r) == 2 {
		p.ValidMin, p.ValidMax = r[0], r[1]
	}
	if r := num("valid_min"); len(r) == 1 {
		p.ValidMin = r[0]
	}
	if r := num("valid_max"); len(r) == 1 {
		p.ValidMax = r[0]
	}
	for _, a := range []struct {
		name string
		to   *float64
	}{{"scale_factor", &p.Scale}, {"add_offset", &p.Offset}} {
		if n := num(a.name); len(n) > 0 {
			*a.to = n[0]
			if math.IsNaN(n[0]) || math.IsInf(n[0], 0) || a.name == "scale_factor" && n[0] == 0 {
				p.Err = fmt.Errorf("%s: %s is %v", v.Path(), a.name, n[0])
			}
		}
	}
	if strings.EqualFold(v.Text("_Unsigned"), "true") {
		p.UnsignedOffset = map[string]float64{"byte": 1 << 8, "short": 1 << 16, "int": 1 << 32}[v.Type]
	}
	return p
}

// Unpack makes values of stored numbers, in place, with NaN where they are missing.
//
// Errors: attributes from which no number can follow.
func (p Packing) Unpack(v []float64) error {
	if p.Err != nil {
		return p.Err
	}
	nan := math.NaN()
	for i, x := range v {
		bad := x < p.ValidMin || x > p.ValidMax
		for _, m := range p.Missing {
			bad = bad || x == m
		}
		if bad {
			v[i] = nan
			continue
		}
		if x < 0 && p.UnsignedOffset != 0 {
			x += p.UnsignedOffset
		}
		v[i] = x*p.Scale + p.Offset
	}
	return nil
}
