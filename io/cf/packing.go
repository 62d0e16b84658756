package cf

import (
	"fmt"
	"math"
	"strings"
)

// Packing describes how stored numbers x become values: Scale·x + Offset.
//
// Source: CF sections 2.5.1 (missing data, valid range) and 8.1 (packed data).
type Packing struct {
	// Missing lists stored numbers that mark missing values: _FillValue and
	// missing_value.
	Missing []float64
	// ValidMin and ValidMax bound the valid stored numbers; ±Inf without a valid
	// range.
	ValidMin, ValidMax float64
	// Scale and Offset are scale_factor and add_offset.
	Scale, Offset float64
	// UnsignedOffset is added to negative numbers of variables with _Unsigned; 0
	// for signed ones.
	UnsignedOffset float64
	// Err reports attributes that are invalid, such as a scale of 0.
	Err error
}

// PackingOf reads the attributes of a variable. fill lists the missing values of a
// variable without _FillValue: the default fill values of its format.
//
// Source: CF sections 2.5.1 and 8.1; NUG, appendix A (_Unsigned, valid_range).
func PackingOf(v *Var, fill ...float64) Packing {
	p := Packing{ValidMin: math.Inf(-1), ValidMax: math.Inf(1), Scale: 1}
	num := func(name string) []float64 { return v.Attrs[name].Numbers }
	// _FillValue replaces the default of the format.
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

// Unpack converts stored numbers to values, in place.
//
// Missing: NaN.
// Errors: Packing.Err.
func (p Packing) Unpack(v []float64) error {
	if p.Err != nil {
		return p.Err
	}
	nan := math.NaN()
	for i, x := range v {
		// Missing values and the valid range refer to stored numbers, before
		// unpacking (CF section 2.5.1).
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
