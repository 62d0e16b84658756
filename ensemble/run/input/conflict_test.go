package input

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// TestConflictFault: the fix fits the cause; removing a file is advised only if nothing else helps.
func TestConflictFault(t *testing.T) {
	field := func(file string, member ensemble.Member, kind ensemble.Kind) ensemble.Entry {
		return ensemble.Entry{Key: ensemble.Key{Variable: "2t", Member: member}, Kind: &kind, File: file}
	}
	for _, c := range []struct {
		name      string
		a, b      ensemble.Entry
		want, fix string
		remove    bool
	}{
		{"pairs", field("f", 1, ensemble.Kind{MemberType: "positive perturbation"}), field("f", 1, ensemble.Kind{MemberType: "negative perturbation"}), "positive and a negative", "--pairs", false},
		{"two controls", field("f", 0, ensemble.Kind{MemberType: "unperturbed high-resolution control"}), field("g", 0, ensemble.Kind{MemberType: "unperturbed low-resolution control"}),
			"unperturbed low-resolution control", "filename_pattern", false},
		{"number 0 in all files", field("f", 0, ensemble.Kind{}), field("g", 0, ensemble.Kind{}), "member 0", "--filename-pattern", true},
		{"no number in all files", field("f", ensemble.NoMember, ensemble.Kind{}), field("g", ensemble.NoMember, ensemble.Kind{}), "no member number", "--filename-pattern", true},
		{"another process", field("f", 1, ensemble.Kind{Process: "96"}), field("f", 1, ensemble.Kind{Process: "107"}), "processes are 96 and 107", "remove one", true},
		{"one file", field("f", 1, ensemble.Kind{}), field("f", 1, ensemble.Kind{}), "unknown which", "remove one", true},
	} {
		f := ConflictFault(c.a, c.b)
		if !strings.Contains(f.What+f.Why, c.want) || !strings.Contains(f.Fix, c.fix) || strings.Contains(f.Fix, "remove one of them") != c.remove {
			t.Errorf("%s: %s; %s; fix %s", c.name, f.What, f.Why, f.Fix)
		}
	}
}
