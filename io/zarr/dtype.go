package zarr

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/float16"
)

// dtype is the type of the elements of an array.
type dtype struct {
	// kind is that of numpy: 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'M'
	// datetime64, 'm' timedelta64. Times are stored as int64.
	kind byte
	// size is the number of bytes of an element.
	size int
	// big reports big-endian elements.
	big bool
	// unit is the CF unit of a time or duration; "" for numbers.
	unit  string
	scale float64 // scale is the number of units per step of a time or duration.
}

// typeNames gives the names of NetCDF types for numpy types. They appear in Packing
// and in listings.
var typeNames = map[string]string{"f2": "half", "f4": "float", "f8": "double", "i1": "byte", "i2": "short", "i4": "int", "i8": "int64",
	"u1": "ubyte", "u2": "ushort", "u4": "uint", "u8": "uint64", "b1": "ubyte"}

// name returns the name of the NetCDF type.
func (d dtype) name() string {
	if d.unit != "" {
		return "int64"
	}
	return typeNames[string(d.kind)+strconv.Itoa(d.size)]
}

// timeUnits gives the CF units for the time units of numpy.
var timeUnits = map[string]string{"D": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

// dtypeText matches typestr: byte order, kind, size, and the time unit in brackets.
var dtypeText = regexp.MustCompile(`^([<>|=]?)([a-zA-Z])(\d+)(?:\[(\d*)([a-zA-Z]+)\])?$`)

// parseDtype parses a type of version 2, such as "<f4" or "<M8[ns]".
//
// Errors: the reason why an array with this type is not used.
// Source: Zarr storage specification version 2, data type encoding; NumPy array
// interface, typestr.
func parseDtype(text string) (dtype, error) {
	m := dtypeText.FindStringSubmatch(text)
	if m == nil {
		return dtype{}, fmt.Errorf("its type %s is not numeric", text)
	}
	size, err := strconv.Atoi(m[3])
	if err != nil {
		return dtype{}, fmt.Errorf("its type %s is not numeric", text)
	}
	d := dtype{kind: m[2][0], size: size, big: m[1] == ">", scale: 1}
	// datetime64 and timedelta64, such as <M8[ns] or <m8[6h]: a factor and a unit.
	if d.kind == 'M' || d.kind == 'm' {
		if m[4] != "" {
			if d.scale, err = strconv.ParseFloat(m[4], 64); err != nil {
				return d, err
			}
		}
		return d, d.setTimeUnit(m[5])
	}
	// Complex numbers, structured types and strings have no NetCDF type.
	if typeNames[m[2]+m[3]] == "" || m[5] != "" {
		return d, fmt.Errorf("its type %s is not numeric", text)
	}
	return d, nil
}

// isTextType reports whether a type of version 2 is a string type.
func isTextType(name string) bool {
	m := dtypeText.FindStringSubmatch(name)
	return name == "|O" || m != nil && strings.Contains("SU", m[2])
}

// textTypes lists the string types of version 3.
var textTypes = []string{"string", "fixed_length_utf32", "null_terminated_bytes", "variable_length_utf8"}

// isTextType3 reports whether a type of version 3 is a string type.
func isTextType3(raw json.RawMessage) bool {
	var name string
	var conf namedConfig
	if json.Unmarshal(raw, &name) != nil && json.Unmarshal(raw, &conf) == nil {
		name = conf.Name
	}
	return slices.Contains(textTypes, name)
}

// setTimeUnit sets the unit of a time or duration.
func (d *dtype) setTimeUnit(unit string) error {
	d.unit = timeUnits[unit]
	if d.unit == "" || d.size != 8 {
		return fmt.Errorf("its times have the unit %q, which is not supported: it has no fixed length", unit)
	}
	if d.scale != 1 {
		return fmt.Errorf("its times count steps of %g %s, which is not supported", d.scale, d.unit)
	}
	return nil
}

// coreTypes gives the numpy types of the data types of version 3.
//
// Source: Zarr core specification 3.0, data types.
var coreTypes = map[string]string{"bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
	"float16": "f2", "float32": "f4", "float64": "f8"}

// parseDataType parses a data type of version 3: a name, or an object with name and
// configuration. The bytes codec defines the byte order.
func parseDataType(raw json.RawMessage) (dtype, error) {
	var name string
	var conf struct {
		Name          string `json:"name"`
		Configuration struct {
			Unit  string  `json:"unit"`
			Scale float64 `json:"scale_factor"`
		} `json:"configuration"`
	}
	if json.Unmarshal(raw, &name) != nil {
		if err := json.Unmarshal(raw, &conf); err != nil {
			return dtype{}, fmt.Errorf("its data type %.60s is unknown", raw)
		}
		name = conf.Name
	}
	if core := coreTypes[name]; core != "" {
		return parseDtype(core)
	}
	d := dtype{size: 8, scale: conf.Configuration.Scale}
	switch name {
	case "numpy.datetime64":
		d.kind = 'M'
	case "numpy.timedelta64":
		d.kind = 'm'
	default:
		return d, fmt.Errorf("its type %.60s is not numeric", name)
	}
	return d, d.setTimeUnit(conf.Configuration.Unit)
}

// parseFill parses a fill value: a number, "NaN", "Infinity", "-Infinity" or the
// bits in hexadecimal. ok is false for null.
//
// Source: Zarr storage specification version 2, fill value encoding; Zarr core
// specification 3.0, fill value.
func (d dtype) parseFill(raw json.RawMessage) (v float64, ok bool, err error) {
	var x any
	if len(raw) == 0 {
		return 0, false, nil
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return 0, false, fmt.Errorf("fill value %.60s is invalid", raw)
	}
	switch x := x.(type) {
	case nil:
		return 0, false, nil
	case bool:
		if x {
			v = 1
		}
		return v, true, nil
	case float64:
		return d.round(x), true, nil
	case string:
		switch {
		// Both versions write non-finite numbers as strings.
		case x == "NaN" || x == "NaT":
			return math.NaN(), true, nil
		case x == "Infinity":
			return math.Inf(1), true, nil
		case x == "-Infinity":
			return math.Inf(-1), true, nil
		// Version 3 writes NaN with a payload as its bits.
		case strings.HasPrefix(x, "0x"):
			bits, err := strconv.ParseUint(x[2:], 16, 8*d.size)
			if err != nil {
				return 0, false, fmt.Errorf("fill value %q is invalid", x)
			}
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], bits)
			one := []float64{0}
			d.readFloats(one, b[:], 0, 1)
			return one[0], true, nil
		}
		// Large integers may be strings, since JSON numbers are doubles.
		if v, err := strconv.ParseFloat(x, 64); err == nil {
			return d.round(v), true, nil
		}
	}
	return 0, false, fmt.Errorf("fill value %.60s is invalid", raw)
}

// round returns x rounded to the precision of the type. JSON may have more digits.
func (d dtype) round(x float64) float64 {
	switch {
	case d.kind == 'f' && d.size == 4:
		return float64(float32(x))
	case d.kind == 'f' && d.size == 2:
		return float16.Round(x)
	}
	return x
}

// toLittleEndian converts the elements to little-endian, in place.
func (d dtype) toLittleEndian(raw []byte) {
	if !d.big || d.size == 1 {
		return
	}
	for at := 0; at+d.size <= len(raw); at += d.size {
		slices.Reverse(raw[at : at+d.size])
	}
}

// readFloats converts the elements first, first+step, first+2·step … of raw to
// float64.
//
// Shape: dst [number of elements]; raw is little-endian.
// Missing: NaT becomes NaN. Fill values are not replaced; cf.Packing does this.
func (d dtype) readFloats(dst []float64, raw []byte, first, step int) {
	at, by := first*d.size, step*d.size
	switch {
	case d.kind == 'f' && d.size == 4:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[at:])))
			at += by
		}
	case d.kind == 'f' && d.size == 8:
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[at:]))
			at += by
		}
	case d.kind == 'f':
		for i := range dst {
			dst[i] = float16.FromBits(binary.LittleEndian.Uint16(raw[at:]))
			at += by
		}
	default:
		for i := range dst {
			dst[i] = d.integer(raw[at:])
			at += by
		}
	}
}

// integer converts one integer to float64. Integers above 2⁵³ are rounded.
func (d dtype) integer(raw []byte) float64 {
	var u uint64
	for k := d.size - 1; k >= 0; k-- {
		u = u<<8 | uint64(raw[k])
	}
	if d.kind == 'u' || d.kind == 'b' {
		return float64(u)
	}
	// The arithmetic shift extends the sign.
	i := int64(u<<(64-8*d.size)) >> (64 - 8*d.size)
	if d.unit != "" && i == math.MinInt64 {
		return math.NaN() // numpy's NaT
	}
	return float64(i)
}
