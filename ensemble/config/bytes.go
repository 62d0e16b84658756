package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Bytes is an amount of memory. Zero usually means no limit.
type Bytes int64

// units of Bytes, powers of two first, largest first; ParseBytes reads all, String writes the
// powers of two.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// String formats b in the largest power-of-two unit that divides it, such as 4GiB.
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

// bytesText matches a number with a unit, such as 1.5GiB.
var bytesText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kKMGT]?i?B)$`)

// ParseBytes parses 4GiB, 1.5GiB, 800MB and 0.
//
// Errors: a number without unit other than 0; a fraction of a byte; any other text.
func ParseBytes(s string) (Bytes, error) {
	if s == "0" {
		return 0, nil
	}
	if plainInt.MatchString(s) {
		return 0, fmt.Errorf("missing unit: write %sGiB for units of 2³⁰ bytes", s)
	}
	m := bytesText.FindStringSubmatch(s)
	if m == nil {
		return 0, schema.ErrKind
	}
	for _, u := range units {
		if u.name != m[2] {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		switch v *= float64(u.bytes); {
		case err != nil || v >= math.MaxInt64:
			return 0, fmt.Errorf("%s is too large", s)
		case v != math.Trunc(v):
			return 0, fmt.Errorf("%s is not a whole number of bytes", s)
		}
		return Bytes(v), nil
	}
	return 0, schema.ErrKind
}
