package unit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// names and symbols are the database by spelling. Names are in lower case, with
// their plurals.
var names, symbols = spellings()

// spellings builds both maps once, when the program starts. Of two entries with one
// spelling the later one stays.
func spellings() (names, symbols map[string]measure) {
	names, symbols = map[string]measure{}, map[string]measure{}
	for _, e := range database {
		for _, n := range strings.Fields(e.names) {
			for _, s := range []string{plural(n), n} {
				names[s] = e.measure
			}
		}
		for _, s := range strings.Fields(e.symbols) {
			symbols[s] = e.measure
		}
	}
	return names, symbols
}

// plural returns the plural of a name as UDUNITS-2 forms it.
//
// A name of two letters has no plural; the irregular ones ("feet") are listed in the
// database.
//
// Source: UDUNITS-2, xml.c, formPlural.
func plural(name string) string {
	n := len(name)
	if n < 3 {
		return name
	}
	switch last := name[n-1]; {
	case last == 'y' && strings.IndexByte("aeiou", name[n-2]) < 0:
		return name[:n-1] + "ies"
	case last == 's' || last == 'x' || last == 'z' || strings.HasSuffix(name, "ch") || strings.HasSuffix(name, "sh"):
		return name + "es"
	}
	return name + "s"
}

// lookup returns the unit of an identifier: a name or a symbol, with prefixes. The
// result is false if neither is in the database.
//
// A whole name therefore wins over a prefix: "min" is a minute, not a milli-inch, and
// "Pa" a pascal, not a peta-are. Prefix names may follow each other, a prefix symbol
// occurs once: "mm" is a millimetre, "mmm" is unknown.
//
// Source: UDUNITS-2, prefix.c and parser.y: a unit without prefix has precedence, then
// the longest prefix.
func lookup(id string) (measure, bool) {
	factor, symbolic := 1.0, false
	for rest := id; rest != ""; {
		m, ok := names[strings.ToLower(rest)]
		if !ok {
			m, ok = symbols[rest]
		}
		if ok {
			if rest != id { // a unit with a prefix has no origin
				m.origin = 0
			}
			m.factor *= factor
			return m, true
		}
		prefix, n := longestPrefix(strings.ToLower(rest), prefixNames)
		if n == 0 && !symbolic { // one symbol of a prefix at most
			prefix, n = longestPrefix(rest, prefixSymbols)
			symbolic = true
		}
		if n == 0 {
			return measure{}, false
		}
		factor *= prefix
		rest = rest[n:]
	}
	return measure{}, false
}

// longestPrefix returns the longest prefix with which a text begins, and its length; 0
// if there is none. Five bytes are the longest ("yotta", "femto").
func longestPrefix(text string, of map[string]float64) (factor float64, length int) {
	for n := min(len(text), 5); n > 0; n-- {
		if f, ok := of[text[:n]]; ok {
			return f, n
		}
	}
	return 0, 0
}

// parser reads a unit by the grammar of UDUNITS-2: products of powers, with blank,
// "." , "*" or "-" between factors, "/" or "per" before a divisor, and exponents
// "m2", "m^2", "m**2" and "m²".
//
// Source: UDUNITS-2 manual, section "Unit Grammar".
type parser struct {
	text     string
	at       int
	isNumber bool // the last basic unit is a number, which may precede a name without a blank
}

// parse reads a unit.
//
// parse returns the factor, origin and dimensions of a unit. It implements
//
//	Unit-Spec ::= Shift-Spec
//
// of the manual; the empty text is rejected by basic, although it is dimensionless in
// UDUNITS-2, because a file without a unit may have per cent. Logarithmic units ("lg(re
// 1 mW)") and timestamps are not read: CF times have their own parser (io/cf).
//
// Errors: text that is not of the grammar, or a name that the database lacks.
func parse(text string) (measure, error) {
	if len(text) > maxText {
		return measure{}, fmt.Errorf("it has %d characters", len(text))
	}
	p := &parser{text: strings.TrimSpace(text)}
	m, err := p.shifted()
	if err != nil {
		return measure{}, err
	}
	if p.at < len(p.text) {
		return measure{}, fmt.Errorf("%q is not expected", p.text[p.at:])
	}
	return m, nil
}

// maxText bounds the length of a unit, and so the depth of its parentheses.
const maxText = 100

// skip passes white space and reports whether there was any. Blanks are those of
// Unicode, so a no-break space is one too.
func (p *parser) skip() bool {
	from := p.at
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if !unicode.IsSpace(r) {
			break
		}
		p.at += n
	}
	return p.at > from
}

// next reports whether the text continues with one of words, and passes it. Case does
// not matter. A word operator is passed with its blank ("per "), so that a name such as
// "percent" is not split.
func (p *parser) next(words ...string) bool {
	for _, w := range words {
		if len(p.text)-p.at >= len(w) && strings.EqualFold(p.text[p.at:p.at+len(w)], w) {
			p.at += len(w)
			return true
		}
	}
	return false
}

// shifted reads a product, and an origin behind "@" or "from". It implements
//
//	Shift-Spec ::= Product-Spec | Product-Spec SHIFT REAL
//
// "K @ 273.15" is a degree Celsius: SI = factor·(native + origin). A word needs a blank
// before it, "@" does not. Without an origin sign the position stays behind the product.
func (p *parser) shifted() (measure, error) {
	m, err := p.product()
	if err != nil {
		return m, err
	}
	back := p.at
	blank := p.skip()
	if !p.next("@") && (!blank || !p.next("from ", "since ", "after ", "ref ")) {
		p.at = back
		return m, nil
	}
	p.skip()
	origin, ok := p.number()
	if !ok {
		return m, fmt.Errorf("no number follows the origin sign")
	}
	m.origin += origin
	return m, nil
}

// product reads powers and the operators between them. It implements
//
//	Product-Spec ::= Power-Spec | Product-Spec [MULTIPLY | DIVIDE] Power-Spec
//
// Operators have equal precedence and associate to the left: "J/kg/K" and "J/kg K"
// differ, the latter being J kg-1 K. A "-" is a product only before a non-digit; before
// a digit it is the sign of an exponent. A factor may follow without operator after a
// number ("10 m", "10m") and around parentheses.
//
// Errors: a character that begins no factor; exponents above maxExponent, a factor that
// overflows.
func (p *parser) product() (measure, error) {
	m, err := p.power()
	if err != nil {
		return m, err
	}
	for p.at < len(p.text) {
		back := p.at
		blank := p.skip()
		sign := 1
		switch {
		case p.at == len(p.text), p.text[p.at] == ')', p.text[p.at] == '@':
			p.at = back
			return m, nil
		case p.next("/"), blank && p.next("per "):
			sign = -1
			p.skip()
		case blank && p.next("from ", "since ", "after ", "ref "):
			p.at = back
			return m, nil
		case p.next("·", "*", "."):
			p.skip()
		case p.text[p.at] == '-' && p.at+1 < len(p.text) && !isDigit(p.text[p.at+1]):
			p.at++
		case blank, p.isNumber, p.text[p.at] == '(', p.text[back-1] == ')':
		default:
			return m, fmt.Errorf("%q is not expected", p.text[p.at:])
		}
		next, err := p.power()
		if err != nil {
			return m, err
		}
		if m = m.times(next.raised(sign)); !m.isBounded() {
			return m, fmt.Errorf("its exponents are too large")
		}
	}
	return m, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// superscripts are the digits and signs of exponents in Unicode.
const superscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"

// power reads a unit with its exponent. It implements
//
//	Power-Spec ::= Basic-Spec | Basic-Spec INT | Basic-Spec RAISE INT | Basic-Spec EXPONENT
//
// Without an exponent the unit is returned with its origin. After "^" or "**" an
// exponent is required.
func (p *parser) power() (measure, error) {
	m, err := p.basic()
	if err != nil {
		return m, err
	}
	from := p.at
	if p.next("**", "^") {
		if n, ok := p.integer(); ok {
			return m.bounded(n)
		}
		return m, fmt.Errorf("no exponent follows %q", p.text[:p.at])
	}
	if n, ok := p.integer(); ok {
		return m.bounded(n)
	}
	var digits strings.Builder
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		i := slices.Index([]rune(superscripts), r)
		if i < 0 {
			break
		}
		digits.WriteByte("0123456789+-"[i])
		p.at += n
	}
	if digits.Len() > 0 {
		n, err := strconv.Atoi(digits.String())
		if err != nil || n > maxExponent || n < -maxExponent {
			return m, fmt.Errorf("invalid exponent %q", p.text[from:p.at])
		}
		return m.bounded(n)
	}
	return m, nil
}

// bounded returns a power of a unit. The limit keeps dims within int16 whatever product
// follows.
//
// Errors: exponents that no unit in use has.
func (m measure) bounded(n int) (measure, error) {
	if m = m.raised(n); !m.isBounded() {
		return m, fmt.Errorf("its exponents are too large")
	}
	return m, nil
}

// maxExponent bounds exponents. The largest in use is 10^-6 m^6, the radar reflectivity
// factor in mm6 m-3; twelve leaves room for its square.
const maxExponent = 12

// integer reads an exponent. If there is none, or one above maxExponent, the result is
// false and the position does not change.
func (p *parser) integer() (int, bool) {
	end := p.at
	if end < len(p.text) && (p.text[end] == '-' || p.text[end] == '+') {
		end++
	}
	for end < len(p.text) && isDigit(p.text[end]) {
		end++
	}
	n, err := strconv.Atoi(p.text[p.at:end])
	if err != nil || n > maxExponent || n < -maxExponent {
		return 0, false
	}
	p.at = end
	return n, true
}

// basic reads an identifier, a number, or a unit in parentheses. It implements
//
//	Basic-Spec ::= ID | "(" Shift-Spec ")" | Number
//
// A number is a dimensionless unit with that factor ("0.01" is per cent).
func (p *parser) basic() (measure, error) {
	p.isNumber = false
	if p.next("(") {
		p.skip()
		m, err := p.shifted()
		if err != nil {
			return m, err
		}
		if p.skip(); !p.next(")") {
			return m, fmt.Errorf("a parenthesis is not closed")
		}
		return m, nil
	}
	if v, ok := p.number(); ok {
		p.isNumber = true
		return measure{factor: v}, nil
	}
	id := p.identifier()
	if id == "" {
		return measure{}, fmt.Errorf("a unit is expected at %q", p.text[p.at:])
	}
	m, ok := lookup(id)
	if !ok {
		return m, fmt.Errorf("%q is unknown", id)
	}
	return m, nil
}

// number reads a positive real number. Zero is rejected because a conversion divides by
// the factor. An "e" without digits behind it is not part of the number but begins a
// name.
func (p *parser) number() (float64, bool) {
	end := p.at
	for end < len(p.text) && (isDigit(p.text[end]) || p.text[end] == '.') {
		end++
	}
	if end == p.at || p.text[p.at:end] == "." {
		return 0, false
	}
	if e := end; e < len(p.text) && (p.text[e] == 'e' || p.text[e] == 'E') {
		if e++; e < len(p.text) && (p.text[e] == '-' || p.text[e] == '+') {
			e++
		}
		if e < len(p.text) && isDigit(p.text[e]) {
			for end = e; end < len(p.text) && isDigit(p.text[end]); end++ {
			}
		}
	}
	v, err := strconv.ParseFloat(p.text[p.at:end], 64)
	if err != nil || v <= 0 {
		return 0, false
	}
	p.at = end
	return v, true
}

// identifier reads letters and underscores, or one of the signs that are units.
// Digits within a name end it, because an exponent may follow.
func (p *parser) identifier() string {
	from := p.at
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if !unicode.IsLetter(r) && r != '_' && r != '%' && r != '°' && r != '℃' && r != '℉' {
			break
		}
		p.at += n
	}
	return p.text[from:p.at]
}

// isBounded reports whether exponents and factor are those of a unit in use. A product
// of prefixes may underflow to 0 or overflow to infinity; both would turn a field into
// zeros or infinities.
func (m measure) isBounded() bool {
	for _, d := range m.dims {
		if d > maxExponent || d < -maxExponent {
			return false
		}
	}
	return m.factor > 0 && !math.IsInf(m.factor, 0)
}

// times returns the product of two units. Only a unit alone has an origin. The product
// of units is one of differences: 1 degC m-1 is 1 K m-1.
func (m measure) times(o measure) measure {
	out := measure{factor: m.factor * o.factor, dims: m.dims}
	for i, d := range o.dims {
		out.dims[i] += d
	}
	return out
}

// raised returns a power of a unit. For n = 1 the origin stays; for all others there is
// none, as in a product.
func (m measure) raised(n int) measure {
	if n == 1 {
		return m
	}
	out := measure{factor: math.Pow(m.factor, float64(n))}
	for i, d := range m.dims {
		out.dims[i] = d * int16(n)
	}
	return out
}
