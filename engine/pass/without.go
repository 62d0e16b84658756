package pass

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Absence states what a plan without a pass computes.
type Absence uint8

// The kinds.
const (
	Required Absence = iota // no plan, or not the one that the options ask for
	Rounding                // results that differ by rounding
	SameBits                // the same bits on a CPU and in the reference
)

// String is the word in lists of passes.
func (a Absence) String() string { return [...]string{"required", "rounding", "same bits"}[a] }

// Needs lists the options that need an optional pass, and why. Run refuses a
// plan with such an option and without the pass.
var Needs = []struct {
	Pass, Option string
	Set          func(o *Options) bool
	Reason       string
}{
	{"fuse", "int8 convolutions", quantises, "int8 values are stored after bias and ReLU"},
	{"choose-layouts", "int8 convolutions", quantises, "int8 kernels work on fields in the inner layout"},
	{"choose-layouts", "16-bit precision", func(o *Options) bool { return o.Precision != graph.Float32 }, "other types have kernels for blocked values only"},
	{"choose-workspaces", "a workspace limit", func(o *Options) bool { return o.Workspace > 0 }, "it chooses the kernels that stay within the limit"},
	{"choose-workspaces", "a memory limit", func(o *Options) bool { return o.MemoryLimit > 0 }, "it chooses the kernels that stay within the limit"},
}

// quantises reports whether convolutions multiply in int8.
func quantises(o *Options) bool { return len(o.Int8) > 0 }

// Optional lists the names of the passes that may be left out, in order.
func Optional() (names []string) {
	for _, p := range List {
		if p.Absence != Required {
			names = append(names, p.Name)
		}
	}
	return names
}

// AllBut lists the names of the optional passes besides those of only: what to
// leave out so that only these and the required passes remain.
//
// Errors: exit.Usage for a name that is not an optional pass.
func AllBut(only []string) ([]string, error) {
	if err := checkOptional(only); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(Optional(), func(name string) bool { return slices.Contains(only, name) }), nil
}

// Without returns list without the named passes.
//
// Errors: exit.Usage for a name that is not an optional pass.
func Without(list []Pass, names []string) ([]Pass, error) {
	if err := checkOptional(names); err != nil || len(names) == 0 {
		return list, err
	}
	return slices.DeleteFunc(slices.Clone(list), func(p Pass) bool { return slices.Contains(names, p.Name) }), nil
}

// checkOptional verifies that all names are those of optional passes.
//
// Errors: exit.Usage with the nearest name and the list.
func checkOptional(names []string) error {
	optional := Optional()
	for _, name := range names {
		if slices.Contains(optional, name) {
			continue
		}
		e := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown compiler pass %q", name), Fix: "passes that can be left out: " + strings.Join(optional, ", ")}
		if at := slices.IndexFunc(List, func(p Pass) bool { return p.Name == name }); at >= 0 {
			e.What, e.Why = fmt.Sprintf("compiler pass %q cannot be left out", name), "it is required: "+List[at].Purpose
		} else if near := nearest.Find(name, optional); near != "" {
			e.Fix = "did you mean `" + near + "`? " + e.Fix
		}
		return e
	}
	return nil
}

// checkNeeds verifies that list has the passes that the options need.
//
// Errors: exit.Usage.
func checkNeeds(list []Pass, o *Options) error {
	for _, n := range Needs {
		if n.Set(o) && !slices.ContainsFunc(list, func(p Pass) bool { return p.Name == n.Pass }) {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s without compiler pass %s", n.Option, n.Pass), Why: n.Reason,
				Fix: "keep the pass, or remove the option"}
		}
	}
	return nil
}
