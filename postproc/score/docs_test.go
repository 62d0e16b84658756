package score

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/scores.md again")

// docs/scores.md lists the table as it is.
func TestDocs(t *testing.T) {
	const path = "../../docs/scores.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(raw), "\n## Table\n")
	if !ok {
		t.Fatal("docs/scores.md has no table")
	}
	want := head + "\n## Table\n" + list()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(raw) != want {
		t.Error("docs/scores.md differs from the table: go test ./postproc/score -run TestDocs -update")
	}
}

func list() string {
	var b strings.Builder
	for _, s := range Table {
		fmt.Fprintf(&b, "\n### %s\n\n%s. %s\n\n    %s\n\n", s.ID, strings.ToUpper(s.Name[:1])+s.Name[1:], s.Doc, s.Formula)
		words := []string{"unit " + s.UnitOf("that of the variable")}
		if s.Unit == Dimensionless {
			words[0] = "unit 1"
		}
		if s.Value != nil {
			words = append(words, "better: "+s.Better.String())
		}
		var of []string
		if s.Needs&Members != 0 {
			of = append(of, "members")
		} else if s.Needs&Parameters != 0 {
			of = append(of, "families")
		} else if s.NoMembers {
			of = append(of, "distributions")
		} else {
			of = append(of, "members and distributions")
		}
		for _, n := range []struct {
			need Need
			what string
		}{{Events, "thresholds"}, {Index, "an extreme forecast index"}, {Quantiles | Tails, "a climate"}, {Neighbours, "a grid"}, {Leads, "earlier leads"}, {FullSpread, "the full ensemble"}} {
			if s.Needs&n.need != 0 {
				of = append(of, "with "+n.what)
			}
		}
		words = append(words, "for "+strings.Join(of, " "))
		if s.Divisor != "" {
			words = append(words, "divisor for members "+s.Divisor)
		}
		if s.Diagram != nil {
			words = append(words, "diagram with "+strings.Join(s.Diagram.Columns, ", "))
		}
		if slices.Contains(Default, s.ID) {
			words = append(words, "computed unless others are chosen")
		}
		fmt.Fprintf(&b, "%s. Source: %s.\n", strings.Join(words, "; "), s.Source)
	}
	return b.String()
}
