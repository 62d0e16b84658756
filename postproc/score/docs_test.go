package score

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/verification.md, testdata/recorded.txt and testdata/report.txt again")

// docs/verification.md lists the table as it is.
func TestDocs(t *testing.T) {
	const path = "../../docs/verification.md"
	const heading = "\n## Table of scores\n"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), heading)
	at := strings.Index(rest, "\n## ")
	if !ok || at < 0 {
		t.Fatal("docs/verification.md has no table of scores, or no section behind it")
	}
	want := head + heading + list() + rest[at:]
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(raw) != want {
		t.Error("docs/verification.md differs from the table: go test ./postproc/score -run TestDocs -update")
	}
}

func list() string {
	var b strings.Builder
	b.WriteString("\nBold scores are computed by default. Those with a climate or earlier leads are added when available.\n" +
		"Parentheses give the divisor of variances or pairs of members. The unit `variable` is that of the variable.\n")
	b.WriteString("\n| `id` | score | formula | unit; better | for | source |\n|---|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`)
	for _, s := range Table {
		id := "`" + s.ID + "`"
		if slices.Contains(Default, s.ID) {
			id = "**" + id + "**"
		}
		unit := s.UnitOf("variable")
		if s.Unit == Dimensionless {
			unit = "1"
		}
		if s.Value != nil {
			unit += "; " + s.Better.String()
		}
		doc := s.Doc
		if s.Diagram != nil {
			doc += " Diagram: " + strings.Join(s.Diagram.Columns, ", ") + "."
		}
		fmt.Fprintf(&b, "| %s | %s. %s | `%s` | %s | %s | %s |\n", id, cell.Replace(strings.ToUpper(s.Name[:1])+s.Name[1:]), cell.Replace(doc), cell.Replace(s.Formula), unit, s.Inputs(), s.Source)
	}
	return b.String()
}
