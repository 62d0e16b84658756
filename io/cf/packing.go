package cf

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Packing describes how stored numbers x become values: Scale·x + Offset.
//
// Source: CF sections 2.5.1 (missing data, valid range) and 8.1 (packed data).
type Packing struct {
	// Missing lists stored numbers that mark missing values: _FillValue and
	// missing_value, as the type of the variable represents them.
	Missing []float64
	// ValidMin and ValidMax bound the valid stored numbers, unsigned ones if the
	// variable is; ±Inf without a valid range.
	ValidMin, ValidMax float64
	// Scale and Offset are scale_factor and add_offset.
	Scale, Offset float64
	// UnsignedOffset is added to negative numbers of variables with _Unsigned; 0
	// for signed ones.
	UnsignedOffset float64
	// SignedLimit is the smallest number of an unsigned type that stands for a
	// negative one (_Unsigned = "false"); 0 if none does.
	SignedLimit float64
	// Warnings lists attributes that are ignored or do not follow CF.
	Warnings []string
	// Err reports attributes that are invalid, such as a scale of 0.
	Err error
}

// storedType describes a numeric type of a file.
type storedType struct {
	bits     int
	float    bool
	unsigned bool
}

var storedTypes = map[string]storedType{"byte": {bits: 8}, "short": {bits: 16}, "int": {bits: 32}, "int64": {bits: 64}, "ubyte": {bits: 8, unsigned: true}, "ushort": {bits: 16, unsigned: true},
	"uint": {bits: 32, unsigned: true}, "uint64": {bits: 64, unsigned: true}, "half": {bits: 16, float: true}, "float": {bits: 32, float: true}, "double": {bits: 64, float: true}}

// bounds returns the smallest and the largest number of an integer type. For 64 bits the
// largest number is rounded up to 2⁶³ or 2⁶⁴, because float64 has 53 bits.
func (t storedType) bounds() (low, high float64) {
	if t.unsigned {
		return 0, math.Ldexp(1, t.bits) - 1
	}
	return -math.Ldexp(1, t.bits-1), math.Ldexp(1, t.bits-1) - 1
}

// stored returns x as the type represents it. ok is false for a number that an
// integer type cannot hold.
func (t storedType) stored(x float64) (y float64, ok bool) {
	switch {
	case t.float && t.bits == 32:
		return float64(float32(x)), true
	case t.float || t.bits == 0:
		return x, true
	}
	low, high := t.bounds()
	return x, x == math.Trunc(x) && x >= low && x <= high
}

// widerThan reports whether an attribute of this type has the unit of the unpacked
// values of a variable of type v: it is floating point and wider. Wider integers
// have the unit of the packed ones.
//
// Source: NUG, appendix A, valid_range.
func (t storedType) widerThan(v storedType) bool { return t.float && (!v.float || t.bits > v.bits) }

// PackingOf reads the attributes of a variable. fill lists the missing values of a
// variable without _FillValue: the default fill values of its format.
//
// The order of missing data and unpacking is that of CF: _FillValue, missing_value and
// the valid range are compared with stored numbers, before the scale is applied.
//
// Source: CF sections 2.5.1 and 8.1; NUG, appendix A (_Unsigned, valid_range).
func PackingOf(v *Var, fill ...float64) Packing {
	p := Packing{ValidMin: math.Inf(-1), ValidMax: math.Inf(1), Scale: 1}
	kind := storedTypes[v.Type]
	p.readSign(v, kind)
	packed := false
	for _, a := range []struct {
		name string
		to   *float64
	}{{"scale_factor", &p.Scale}, {"add_offset", &p.Offset}} {
		n := p.numbers(v, a.name)
		switch {
		case len(n) == 0:
			continue
		case len(n) > 1:
			p.fail(v, "%s has %d numbers", a.name, len(n))
		case math.IsNaN(n[0]) || math.IsInf(n[0], 0) || a.name == "scale_factor" && n[0] == 0:
			p.fail(v, "%s is %v", a.name, n[0])
		}
		*a.to, packed = n[0], true
	}
	// _FillValue replaces the default of the format.
	if own := p.numbers(v, "_FillValue"); len(own) > 0 {
		p.addMissing(v, "_FillValue", own[:1], packed)
	} else {
		p.Missing = append(p.Missing, fill...)
	}
	p.addMissing(v, "missing_value", p.numbers(v, "missing_value"), packed)
	p.readRange(v, packed)
	return p
}

// fail records the first invalid attribute.
func (p *Packing) fail(v *Var, format string, args ...any) {
	if p.Err == nil {
		p.Err = fmt.Errorf("%s: %s", v.Path(), fmt.Sprintf(format, args...))
	}
}

// warn records an attribute that is ignored or does not follow CF.
func (p *Packing) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// numbers returns a numeric attribute. A text that consists of numbers is one, with
// a warning. Any other text is ignored with a warning if it marks missing values,
// and is an error if it changes values.
func (p *Packing) numbers(v *Var, name string) []float64 {
	a := v.Attrs[name]
	if a.Text == "" {
		return a.Numbers
	}
	n, ok := parseNumbers(a.Text)
	switch {
	case ok:
		p.warn("%s is the text %q, taken for a number", name, a.Text)
	case name == "missing_value" || name == "_FillValue":
		p.warn("%s is the text %q, which is not a number, and is ignored", name, a.Text)
	default:
		p.fail(v, "%s is the text %q, not a number", name, a.Text)
	}
	return n
}

// parseNumbers parses numbers separated by blanks or commas, with the suffixes of
// CDL such as "-999.f".
func parseNumbers(s string) (out []float64, ok bool) {
	words := strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
	for _, w := range words {
		x, err := strconv.ParseFloat(w, 64)
		if err != nil {
			if x, err = strconv.ParseFloat(strings.TrimRight(w, "fFdDsSbBlLuU"), 64); err != nil {
				return nil, false
			}
		}
		out = append(out, x)
	}
	return out, len(out) > 0
}

// readSign reads _Unsigned.
//
// NetCDF-3 has no unsigned types, so an unsigned byte 255 is stored as -1 with this
// attribute. It is ignored for floating point.
//
// Source: NUG, appendix A, _Unsigned.
func (p *Packing) readSign(v *Var, kind storedType) {
	a, ok := v.Attrs["_Unsigned"]
	if !ok || kind.float || kind.bits == 0 {
		return
	}
	yes := strings.EqualFold(a.Text, "true") || len(a.Numbers) == 1 && a.Numbers[0] == 1
	no := strings.EqualFold(a.Text, "false") || len(a.Numbers) == 1 && a.Numbers[0] == 0
	switch {
	case !yes && !no:
		p.fail(v, `_Unsigned is %v, not "true" or "false"`, a.Value())
	case yes && !kind.unsigned:
		p.UnsignedOffset = math.Ldexp(1, kind.bits)
	case no && kind.unsigned:
		p.SignedLimit = math.Ldexp(1, kind.bits-1)
	}
}

// addMissing adds the numbers of an attribute that mark missing values.
//
// A number that the type cannot hold marks nothing and becomes a warning, after the
// readings with the other sign were tried.
func (p *Packing) addMissing(v *Var, name string, numbers []float64, packed bool) {
	kind := storedTypes[v.Type]
	// _FillValue has the type of the variable by definition.
	wide := name == "missing_value" && (v.Attrs[name].Text != "" || storedTypes[v.Attrs[name].Type].widerThan(kind))
	for _, m := range numbers {
		if m != m {
			continue // NaN is missing anyway
		}
		s, ok := kind.stored(m)
		if !ok && p.UnsignedOffset != 0 { // 255 of a byte that is unsigned
			s, ok = kind.stored(m - p.UnsignedOffset)
		}
		if !ok && p.SignedLimit != 0 {
			s, ok = kind.stored(m + 2*p.SignedLimit)
		}
		if ok {
			p.Missing = append(p.Missing, s)
		}
		// Some writers mark missing values in the unit of the unpacked ones.
		if packed && wide && !kind.float {
			if x, fits := kind.stored(p.packedNumber(m)); fits && x != s {
				p.Missing, ok = append(p.Missing, x), true
				p.warn("%s is %v of type %s: the stored number and the value are both taken for missing", name, m, cmp.Or(v.Attrs[name].Type, "text"))
			}
		}
		if !ok {
			p.warn("%s is %v, which its type %s cannot hold, and is ignored", name, m, v.Type)
		}
	}
}

// packedNumber returns the stored number of a value. Attributes may be rounded to
// float32, so a number close to an integer is one.
func (p *Packing) packedNumber(value float64) float64 {
	x := (value - p.Offset) / p.Scale
	tolerance := min(0.4, math.Ldexp((math.Abs(value)+math.Abs(p.Offset))/math.Abs(p.Scale), -22))
	if r := math.Round(x); math.Abs(x-r) <= tolerance {
		return r
	}
	return x
}

// interval is a closed interval of stored numbers.
type interval struct{ low, high float64 }

// set sets the lower or the upper bound.
func (i *interval) set(low bool, x float64) {
	if low {
		i.low = x
	} else {
		i.high = x
	}
}

// contains reports whether x is in the interval.
func (i interval) contains(x float64) bool { return x >= i.low && x <= i.high }

// readRange reads the valid range.
//
// Source: NUG, appendix A: a range whose type is wider than that of the packed
// numbers has the unit of the unpacked values.
func (p *Packing) readRange(v *Var, packed bool) {
	kind := storedTypes[v.Type]
	// The two readings of the attributes: as stored numbers, and as values.
	stored := interval{math.Inf(-1), math.Inf(1)}
	values := stored
	narrow := false // whether an attribute has the type of the stored numbers
	for _, a := range []struct {
		name string
		low  []bool // whether each number is the lower bound
	}{{"valid_range", []bool{true, false}}, {"valid_min", []bool{true}}, {"valid_max", []bool{false}}} {
		n := p.numbers(v, a.name)
		if len(n) == 0 {
			continue
		}
		if len(n) != len(a.low) {
			p.fail(v, "%s has %d numbers, not %d", a.name, len(n), len(a.low))
			continue
		}
		wide := v.Attrs[a.name].Text != "" || storedTypes[v.Attrs[a.name].Type].widerThan(kind)
		for i, x := range n {
			if x != x {
				continue
			}
			value := p.packedNumber(x)
			values.set(a.low[i] == (p.Scale > 0), value) // a negative scale exchanges the bounds
			if packed && wide {
				stored.set(a.low[i] == (p.Scale > 0), value)
				continue
			}
			narrow = true
			if x, _ = kind.stored(x); x < 0 && p.UnsignedOffset != 0 {
				x += p.UnsignedOffset
			} else if p.SignedLimit != 0 && x >= p.SignedLimit {
				x -= 2 * p.SignedLimit
			}
			stored.set(a.low[i], x)
		}
	}
	if stored.low > stored.high {
		p.fail(v, "its valid range from %v to %v is empty", stored.low, stored.high)
	}
	if packed && narrow && !kind.float && p.UnsignedOffset == 0 {
		stored = p.chooseRange(stored, values, math.Ldexp(1, kind.bits))
	}
	p.ValidMin, p.ValidMax = stored.low, stored.high
}

// Shares of the numbers of a type. A range of stored numbers that covers less than
// one of them would waste most of the packing.
const (
	suspiciousShare = 0.02
	narrowShare     = 0.1
)

// chooseRange decides between the two readings of a valid range whose type is that of
// the stored numbers. Writers convert ranges of values to this type (netCDF4-python),
// so that 150 to 350 K became shorts, which would be stored numbers and 281.5 to 283.5
// K. The range is one of values if it contains the value of the stored number 0, and
// as stored numbers neither contains 0 nor covers narrowShare of codes, the numbers of
// the type.
func (p *Packing) chooseRange(stored, values interval, codes float64) interval {
	width := stored.high - stored.low
	contradicts := (stored.low > 1 || stored.high < -1) && values.contains(0)
	switch {
	case contradicts && width < narrowShare*codes:
		p.warn("its valid range %g to %g has the type of the stored numbers but is taken for that of values: as stored numbers it would accept %g to %g only",
			stored.low, stored.high, stored.low*p.Scale+p.Offset, stored.high*p.Scale+p.Offset)
		return values
	case contradicts || width < suspiciousShare*codes && codes > 1<<8:
		p.warn("its valid range %g to %g is one of stored numbers, of values from %g to %g", stored.low, stored.high, stored.low*p.Scale+p.Offset, stored.high*p.Scale+p.Offset)
	}
	return stored
}

// Linear reports whether stored numbers are valid in one interval, and at most
// negative ones get an offset. This is what the fast reader of deflated chunks
// computes.
func (p Packing) Linear() bool {
	bounded := !math.IsInf(p.ValidMin, -1) || !math.IsInf(p.ValidMax, 1)
	return p.SignedLimit == 0 && !(bounded && p.UnsignedOffset != 0)
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
		bad := false
		for _, m := range p.Missing {
			bad = bad || x == m
		}
		switch {
		case x < 0 && p.UnsignedOffset != 0:
			x += p.UnsignedOffset
		case p.SignedLimit != 0 && x >= p.SignedLimit:
			x -= 2 * p.SignedLimit
		}
		if bad || x < p.ValidMin || x > p.ValidMax {
			v[i] = nan
			continue
		}
		v[i] = x*p.Scale + p.Offset
	}
	return nil
}
