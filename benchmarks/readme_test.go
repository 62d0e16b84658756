package benchmarks

import (
	"cmp"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tableRow returns the cells of the first row, of those in a section of a page, whose first cells are the given ones.
func tableRow(t *testing.T, page, section string, first ...string) []string {
	t.Helper()
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), section)
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
lines:
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "*")
		}
		if len(cells) < len(first) {
			continue
		}
		for i, want := range first {
			if cells[i] != want {
				continue lines
			}
		}
		return cells
	}
	t.Fatalf("%s has no row %q below %q", page, first, section)
	return nil
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// numbers are those of a cell.
func numbers(t *testing.T, cell string) []string {
	t.Helper()
	all := number.FindAllString(cell, -1)
	if all == nil {
		t.Fatalf("no number in %q", cell)
	}
	return all
}

// least is the smallest of the numbers of some cells.
func least(t *testing.T, cells []string) string {
	t.Helper()
	return slices.MinFunc(cells, func(a, b string) int {
		x, err := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return cmp.Compare(x, y)
	})
}

// rounds reports whether a number is another one, rounded to its own digits.
func rounds(short, long string) bool {
	s, err := strconv.ParseFloat(short, 64)
	l, err2 := strconv.ParseFloat(long, 64)
	_, decimals, _ := strings.Cut(short, ".")
	return err == nil && err2 == nil && math.Abs(s-l) <= 0.5000001*math.Pow10(-len(decimals))
}

// TestReadmeNumbers: the tables of README.md have the numbers of the results that they are taken from, rounded.
func TestReadmeNumbers(t *testing.T) {
	if !rounds("14", "14.0") || !rounds("63", "62.8") || rounds("63", "62.4") || rounds("0.441", "0.4404") {
		t.Fatal("rounds")
	}
	compare := func(what, short, long string) {
		t.Helper()
		if !rounds(short, long) {
			t.Errorf("%s: README.md has %s, the results %s", what, short, long)
		}
	}
	for _, size := range []string{"8, 64²", "8, 128²", "32, 64²", "32, 128²", "32, 256²"} {
		short := tableRow(t, "README.md", "## Speed", size)
		step := tableRow(t, "benchmarks/results.md", "## Training step", "base "+size, "2")
		predict := tableRow(t, "benchmarks/results.md", "## Prediction", "base "+size, "2")
		// README: ours and the best peer for step, step in bfloat16 products, prediction, prediction in bfloat16 products, memory.
		for i, long := range []string{step[2], step[4], step[6], step[7], predict[2], least(t, predict[4:7]), predict[8], least(t, predict[9:11]), step[9], step[10]} {
			compare("speed of "+size+", column "+strconv.Itoa(i+1), numbers(t, short[i+1])[0], numbers(t, long)[0])
		}
	}
	for _, c := range []struct {
		variable string
		column   int
	}{{"T850 (K)", 1}, {"Z500 (m)", 2}} {
		short := tableRow(t, "README.md", "## Skill", "circulation model SPEEDY, 96 h, "+c.variable)
		const page = "experiments/gcm/README.md"
		compare("raw CRPS of "+c.variable, short[1], tableRow(t, page, "# ", "raw 10 members, plain CRPS, reference")[c.column])
		compare("CRPS of "+c.variable, short[4], numbers(t, tableRow(t, page, "# ", "CRPS")[c.column])[0])
		for i, reference := range []string{"raw 10, plain CRPS", "EMOS by grid point, CRPS"} {
			// The reduction in per cent, then its interval.
			got, want := numbers(t, short[5+i]), numbers(t, tableRow(t, page, "# ", reference)[c.column])
			for k := range want {
				compare("reduction of "+c.variable+" against "+reference, got[k], want[k])
			}
		}
		demo := tableRow(t, "README.md", "## Skill", "demo atmosphere, 48 h, "+c.variable)
		column := map[string]int{"T850 (K)": 3, "Z500 (m)": 6}[c.variable]
		compare("CRPS of the demo, "+c.variable, demo[4], tableRow(t, "experiments/demo/README.md", "| seed |", "1")[column])
	}
}
