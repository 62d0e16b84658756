package answer

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// some are sections that use every field.
func some() Sections {
	var none *float64
	half := 0.5
	return Sections{
		FactsSection([2]string{"disk", "a|b"}, [2]string{"", "fix: <x>"}),
		{Title: "Times", Text: []string{"of\x1b all_runs", "", "  twice"}, Columns: append(TextColumns("run"), NumberColumn("step", "ms", "%.2f"), NumberColumn("n", "", ""), Column{Name: "took"}),
			Rows:  [][]any{{"ä long", 12.345, 3, 2 * time.Second}, {"b", none, int64(1000)}, {"c\nd", &half, "-"}, {"e", math.NaN()}},
			Notes: []string{"all [measured]"}},
	}
}

func TestPrinters(t *testing.T) {
	for _, c := range []struct {
		name  string
		print func(io.Writer) error
		want  string
	}{
		{"text", some().WriteText, `disk  a|b
      fix: <x>

Times
of? all_runs

  twice
run     step ms     n  took
ä long    12.35     3  2s
b             -  1000
c?d        0.50     -
e             -
all [measured]
`},
		{"Markdown", some().WriteMarkdown, `|  |  |
|---|---|
| disk | a\|b |
|  | fix: &lt;x> |

## Times

of? all\_runs

twice

| run | step ms | n | took |
|---|--:|--:|---|
| ä long | 12.35 | 3 | 2s |
| b | - | 1000 |  |
| c d | 0.50 | - |  |
| e | - |  |  |

all \[measured]
`},
		{"HTML", some()[:1].WriteHTML, `<table><tbody><tr><td style="text-align: left">disk</td><td style="text-align: left">a|b</td></tr>` +
			`<tr><td style="text-align: left"></td><td style="text-align: left">fix: &lt;x&gt;</td></tr></tbody></table>`},
		{"HTML with all", Sections{{Title: "T&", Text: []string{"a", "b"}, Columns: []Column{NumberColumn("x", "", "%.1f")}, Rows: [][]any{{1.0}}}}.WriteHTML,
			`<p><b>T&amp;</b></p><p>a<br>b</p><table><thead><tr><th style="text-align: right">x</th></tr></thead><tbody><tr><td style="text-align: right">1.0</td></tr></tbody></table>`},
	} {
		var b strings.Builder
		if err := c.print(&b); err != nil || b.String() != c.want {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", c.name, err, &b, c.want)
		}
	}
}

// TestPrintersFail: a failed write is an error.
func TestPrintersFail(t *testing.T) {
	full := errors.New("full")
	r, w := io.Pipe()
	r.CloseWithError(full)
	for _, print := range []func(io.Writer) error{some().WriteText, some().WriteMarkdown, some().WriteHTML} {
		if err := print(w); !errors.Is(err, full) {
			t.Errorf("got %v, want %v", err, full)
		}
	}
}

// TestUnsignedZero: a number that is rounded to zero has no sign, in cells too; other texts stay.
func TestUnsignedZero(t *testing.T) {
	for text, want := range map[string]string{"-0.00": "0.00", "-0": "0", "-0.00 %": "0.00 %", "-0.01": "-0.01", "-10.0": "-10.0", "-": "-", "0.00": "0.00", "-inf": "-inf", "-0e+00": "0e+00", "": ""} {
		if got := UnsignedZero(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	small := -0.001
	s := Section{Columns: []Column{NumberColumn("a", "", "%.2f %%")}, Rows: [][]any{{-0.004}, {&small}, {-0.006}, {"-0.00"}}}
	if _, rows := s.Cells(); rows[0][0] != "0.00 %" || rows[1][0] != "0.00 %" || rows[2][0] != "-0.01 %" || rows[3][0] != "-0.00" {
		t.Errorf("%v", rows)
	}
}
