package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Bytes is an amount of memory. 0 stands for no bound.
type Bytes int64

// units of Bytes, the largest first: powers of two, then of ten.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// String is the number in the largest power of two in which it is whole.
func (b Bytes) String() string {
	if b == 0 {
		return "0"
	}
	for _, u := range units {
		if n := int64(b) / u.bytes; u.bytes&(u.bytes-1) == 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

var bytesText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kKMGT]?i?B)$`)

// ParseBytes reads 4GiB, 1.5GiB, 800MB and 0.
//
// Errors: a bare number other than 0, since its unit would be a guess; a fraction
// of a byte; anything else.
func ParseBytes(s string) (Bytes, error) {
	if s == "0" {
		return 0, nil
	}
	if plainInt.MatchString(s) {
		return 0, fmt.Errorf("an amount of memory needs its unit: write %sGiB if 2³⁰ bytes are meant", s)
	}
	m := bytesText.FindStringSubmatch(s)
	if m == nil {
		return 0, errKind
	}
	for _, u := range units {
		if u.name != m[2] {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		switch v *= float64(u.bytes); {
		case err != nil || v >= math.MaxInt64:
			return 0, fmt.Errorf("%s is too much", s)
		case v != math.Trunc(v):
			return 0, fmt.Errorf("%s is no whole number of bytes", s)
		}
		return Bytes(v), nil
	}
	return 0, errKind
}
