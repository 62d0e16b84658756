package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// LevelKind is the type of a vertical coordinate.
type LevelKind uint8

// The kinds of level.
const (
	Surface         LevelKind = iota // ground or water surface; value 0
	Pressure                         // value in Pa
	HeightAboveSoil                  // value in m
	MeanSea                          // mean sea level; value 0
	OtherLevel                       // any other type; value not interpreted
	VariableLevel                    // level axis of single-level variables, see SingleLevel
	DepthBelowLand                   // value in m, positive down
)

// Level is a vertical coordinate, or a layer between two values of it.
type Level struct {
	Kind  LevelKind
	Value float64 // Pa for Pressure, m for HeightAboveSoil and DepthBelowLand, 0 for Surface and MeanSea
	// End is the second bound of a layer, greater than Value, if IsLayer; else 0.
	End     float64
	IsLayer bool
}

// Layer is the layer between two levels of a kind, in either order. Equal values are that level.
func Layer(kind LevelKind, a, b float64) Level {
	if a == b {
		return Level{Kind: kind, Value: a}
	}
	return Level{Kind: kind, Value: min(a, b), End: max(a, b), IsLayer: true}
}

// PressureLevel is the level of a pressure in hPa.
func PressureLevel(hPa float64) Level { return Level{Kind: Pressure, Value: hPa * 100} }

// String formats pressure as "850hPa", heights as "2m" and depths as "depth0.1m"; layers as "depth0.1-0.4m".
func (l Level) String() string {
	values := func(scale float64) string {
		text := strconv.FormatFloat(l.Value/scale, 'g', -1, 64)
		if l.IsLayer {
			text += "-" + strconv.FormatFloat(l.End/scale, 'g', -1, 64)
		}
		return text
	}
	switch l.Kind {
	case Surface:
		return "surface"
	case Pressure:
		return values(100) + "hPa"
	case HeightAboveSoil:
		return values(1) + "m"
	case DepthBelowLand:
		return "depth" + values(1) + "m"
	case MeanSea:
		return "msl"
	case VariableLevel:
		return "single"
	default:
		return "level" + values(1)
	}
}

// levelWord matches a level with a unit: a depth or not, one value or two.
var levelWord = regexp.MustCompile(`^(depth)?([0-9]+(?:\.[0-9]+)?)(?:-([0-9]+(?:\.[0-9]+)?))?(hPa|Pa|m)$`)

// SingleLevel is the level axis of variables with one level each: 2t at 2 m, msl at mean sea level.
var SingleLevel = Level{Kind: VariableLevel}

// ForVariable is the level of the fields of a variable on a level axis: l itself, and for SingleLevel the
// level of the variable.
func (l Level) ForVariable(variable string) Level {
	if l != SingleLevel {
		return l
	}
	v, ok := VariableNamed(variable)
	if !ok || v.OnManyLevels() {
		return l
	}
	return v.Level
}

// FindLevel is the position on a level axis of the field of a variable at a level, or −1. On
// SingleLevel the level of the variable is compared.
func FindLevel(axis []Level, variable string, at Level) int {
	return slices.IndexFunc(axis, func(l Level) bool { return l.ForVariable(variable) == at })
}

// ParseLevel reads 850hPa, 85000Pa, 2m, depth0.1m, layers such as depth0.1-0.4m and 0-3000m, surface, msl and
// single: the forms of String except those of OtherLevel.
func ParseLevel(s string) (Level, error) {
	switch s {
	case "surface":
		return Level{Kind: Surface}, nil
	case "msl":
		return Level{Kind: MeanSea}, nil
	case "single":
		return SingleLevel, nil
	}
	m := levelWord.FindStringSubmatch(s)
	if m == nil || m[1] != "" && m[4] != "m" {
		return Level{}, fmt.Errorf("%q is not a level: write 850hPa, 2m, depth0.1m, depth0.1-0.4m, surface, msl or single", s)
	}
	kind, scale := Pressure, 1.0
	switch {
	case m[1] != "":
		kind = DepthBelowLand
	case m[4] == "hPa":
		scale = 100
	case m[4] == "m":
		kind = HeightAboveSoil
	}
	var v [2]float64
	for i, text := range []string{m[2], cmp.Or(m[3], m[2])} {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return Level{}, fmt.Errorf("level %q: %w", s, err)
		}
		v[i] = x * scale
	}
	return Layer(kind, v[0], v[1]), nil
}

// MarshalText encodes the form that ParseLevel reads.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (l *Level) UnmarshalText(text []byte) error {
	v, err := ParseLevel(string(text))
	*l = v
	return err
}

// Member is the number of a realization. The control is 0 unless the input states otherwise.
// NoMember marks fields without member (analyses, deterministic runs, derived products).
type Member int

// Control is the unperturbed member.
const Control Member = 0

// Uses of the control, as data.members.control has them.
const (
	IncludeControl = "include" // as a member
	ExcludeControl = "exclude" // not at all
	NoControl      = "none"    // there is none: every member, also number 0, is one more draw from the same distribution
)

// DescribeControl describes the use of the control for people: "control included".
func DescribeControl(use string) string {
	if use == NoControl {
		return "no control"
	}
	return "control " + use + "d"
}

// NoMember is the member of a field that does not belong to an ensemble.
const NoMember Member = math.MinInt32

// String is the number, or "-" for NoMember.
func (m Member) String() string {
	if m == NoMember {
		return "-"
	}
	return itoa(int64(m))
}

// Product is the statistic over members that a field holds.
type Product uint8

// The products.
const (
	MemberField  Product = iota // a member, or a deterministic or analysis field
	EnsembleMean                // mean over members
	Spread                      // standard deviation over members
	OtherProduct                // another statistic, not a member
	Quantile                    // quantile of the distribution over members
	Probability                 // probability of an Event, 0 to 1
)

// String is the name of the product.
func (p Product) String() string {
	return [...]string{"member", "mean", "spread", "other", "quantile", "probability"}[p]
}

// HasVariableUnit reports whether the values of a product are values or differences of its variable, in
// its unit and range.
func (p Product) HasVariableUnit() bool { return p != OtherProduct && p != Probability }

// Key identifies one field. Two fields of one input with equal keys are duplicates.
type Key struct {
	Variable string // short name as in Variables: "t", "gh", "u" …
	Level    Level
	Member   Member
	Product  Product
	Init     Init
	Lead     Lead
	// QuantileProbability is the probability of a Quantile, Event the event of a Probability; zero for other
	// products.
	QuantileProbability float64
	Event               Event
}

// Valid is the valid time of the field.
func (k Key) Valid() Valid { return k.Init.Valid(k.Lead) }

// String describes the key in one line for messages.
func (k Key) String() string { return k.describe(k.Level.String()) }

// describe returns the text of String with a text of the level.
func (k Key) describe(level string) string {
	of := "member " + k.Member.String()
	if k.Product != MemberField {
		of = k.Product.String()
		switch k.Product {
		case Quantile:
			of += " " + strconv.FormatFloat(k.QuantileProbability, 'g', -1, 64)
		case Probability:
			of += " " + k.Event.String()
		}
	} else if k.Member == NoMember {
		of = "no member"
	}
	return fmt.Sprintf("%s %s, %s, init %s, lead %s", k.Variable, level, of, k.Init, k.Lead)
}

// Compare orders keys by init, lead, variable, level (falling pressure), product, quantile, event
// and member. All listings and outputs have this order.
func (k Key) Compare(o Key) int {
	if c := k.Init.Compare(o.Init.Time); c != 0 { // one by one for speed: catalogues are long
		return c
	}
	if c := cmp.Compare(k.Lead, o.Lead); c != 0 {
		return c
	}
	if c := cmp.Compare(k.Variable, o.Variable); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(k.Level.Kind, o.Level.Kind),
		cmp.Compare(o.Level.Value, k.Level.Value),
		cmp.Compare(o.Level.End, k.Level.End),
		cmp.Compare(k.Product, o.Product),
		cmp.Compare(k.QuantileProbability, o.QuantileProbability),
		k.Event.Compare(o.Event),
		cmp.Compare(k.Member, o.Member),
	)
}

// itoa formats an integer.
func itoa(v int64) string { return strconv.FormatInt(v, 10) }
