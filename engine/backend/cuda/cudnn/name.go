package cudnn

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// knob is a setting of an engine.
type knob struct {
	kind  int32
	value int64
}

// choice determines a plan: an engine with its settings, for the fused graph or the
// plain one.
type choice struct {
	fused  bool
	engine int64
	knobs  []knob
}

// String returns the name of a plan, such as "engine 38, 2=5, 13=1", with "fused " in
// front.
func (c choice) String() string {
	slices.SortFunc(c.knobs, func(a, b knob) int { return cmp.Compare(a.kind, b.kind) })
	var s strings.Builder
	if c.fused {
		s.WriteString("fused ")
	}
	fmt.Fprintf(&s, "engine %d", c.engine)
	for _, k := range c.knobs {
		fmt.Fprintf(&s, ", %d=%d", k.kind, k.value)
	}
	return s.String()
}

// parse parses the name of a plan.
//
// Errors: text that String would not give for the choice, such as other blanks.
func parse(name string) (choice, error) {
	var c choice
	rest, fused := strings.CutPrefix(name, "fused ")
	c.fused = fused
	parts := strings.Split(rest, ", ")
	engine, ok := strings.CutPrefix(parts[0], "engine ")
	number, err := strconv.ParseInt(engine, 10, 64)
	for _, p := range parts[1:] {
		kind, value, found := strings.Cut(p, "=")
		k, err1 := strconv.ParseInt(kind, 10, 32)
		v, err2 := strconv.ParseInt(value, 10, 64)
		ok = ok && found && err1 == nil && err2 == nil
		c.knobs = append(c.knobs, knob{int32(k), v})
	}
	c.engine = number
	if !ok || err != nil || c.String() != name {
		return choice{}, fmt.Errorf("cudnn: name of a plan: got %q, want one like %q", name, "engine 38, 2=5, 13=1")
	}
	return c, nil
}
