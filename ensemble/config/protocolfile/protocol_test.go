package protocolfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// write writes a file into a folder of the test and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func loadProtocol(t *testing.T, name string) *Config {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The numbers that sources give of their files, and what follows from them.
func TestBuiltInProtocols(t *testing.T) {
	for _, c := range []struct {
		name                       string
		starts, members, published int
		messages                   []int // of a file of each kind
		test                       int   // starts
	}{
		{"ens10", 2100, 10, 32, []int{46200, 6600}, 210},
		{"deep-weather", 1995, 10, 0, []int{43890, 6270}, 210},
		{"ens5-mini", 1050, 5, 0, []int{11550, 1650}, 105},
	} {
		p := loadProtocol(t, c.name)
		h := p.Hindcasts
		starts := h.Inits()
		if len(starts) != c.starts || len(h.Dates) != 105 || h.Members != c.members || len(p.Published) != c.published {
			t.Errorf("%s: %d starts, %d dates, %d members, %d scores", c.name, len(starts), len(h.Dates), h.Members, len(p.Published))
		}
		for i, f := range h.Files {
			if n := len(h.Inits(h.Dates[0])) * len(h.Leads) * h.Members * len(f.Levels) * len(f.Variables); n != c.messages[i] {
				t.Errorf("%s: %d messages in %s, want %d", c.name, n, f.Name, c.messages[i])
			}
			for _, v := range f.Variables {
				if known, ok := ensemble.VariableNamed(v); !ok || known.OnManyLevels() != (f.Levels[0].Kind == ensemble.Pressure) {
					t.Errorf("%s: %s in %s", c.name, v, f.Name)
				}
			}
		}
		test := p.Split.Test.Period()
		if n := len(slices.DeleteFunc(slices.Clone(starts), func(i ensemble.Init) bool { return !test.Contains(i.Time) })); n != c.test {
			t.Errorf("%s: %d starts of the test, want %d", c.name, n, c.test)
		}
		// The parts of the split share no start.
		parts := []config.Period{p.Split.Train, p.Split.Test}
		if !p.Split.Validation.From.IsZero() {
			parts = append(parts, p.Split.Validation)
		}
		for i, a := range parts {
			for _, b := range parts[:i] {
				if a.Period().Contains(b.From.Time) || b.Period().Contains(a.From.Time) {
					t.Errorf("%s: parts %v and %v overlap", c.name, a, b)
				}
			}
		}
	}
	p := loadProtocol(t, "ens10")
	if name := p.Hindcasts.Files[0].Path(p.Hindcasts.ReferenceYear, "0104"); name != "output.pl.20180104" {
		t.Error(name)
	}
	months, valids := p.Months()
	last := months[len(months)-1]
	if len(months) != 241 || p.Analyses.Files[0].Path(last) != "era5.pl.201801.grib" || len(valids[last]) != 1 || valids[last][0].String() != "2018-01-02T00:00Z" {
		t.Errorf("%d months, the last with %v", len(months), valids[last])
	}
}

// 29 February is a start of leap years, and of no other.
func TestLeapDays(t *testing.T) {
	h := Hindcasts{FirstYear: 1999, LastYear: 2004, Dates: []string{"0226", "0229"}}
	var days []string
	for _, s := range h.Inits("0229") {
		days = append(days, s.Format(time.DateOnly))
	}
	if got := strings.Join(days, " "); got != "2000-02-29 2004-02-29" || len(h.Inits()) != 8 {
		t.Errorf("%s; %d starts in all", got, len(h.Inits()))
	}
}

func TestProtocolPart(t *testing.T) {
	p := loadProtocol(t, "ens10")
	q, err := p.Subset(1998, 2001, 4, 9, 16, 3)
	if err != nil {
		t.Fatal(err)
	}
	if h := q.Hindcasts; len(h.Inits()) != 16 || !slices.Equal(h.Dates, []string{"0101", "0402", "0702", "1001"}) || h.Members != 3 || q.Grid.East != 337.5 {
		t.Errorf("%+v, %+v", q.Hindcasts, q.Grid)
	}
	if whole, err := p.Subset(0, 0, 0, 0, 0, 0); err != nil || len(whole.Hindcasts.Inits()) != 2100 || whole.Grid != p.Grid {
		t.Errorf("nothing narrowed: %v, %+v", err, whole.Grid)
	}
	mini, err := loadProtocol(t, "ens5-mini").Subset(0, 0, 1, 6, 6, 0)
	if err != nil || mini.Grid.East != 29.5 { // an area keeps its corners
		t.Errorf("%v, %+v", err, mini.Grid)
	}
	for _, c := range [][6]int{{1997, 1998}, {2017, 2018}, {2001, 2000}, {0, 0, 106}, {0, 0, 0, 362, 720}, {0, 0, 0, 9, 0}, {0, 0, 0, 0, 0, 11}, {0, 0, 0, 0, 0, 1}} {
		if _, err := p.Subset(c[0], c[1], c[2], c[3], c[4], c[5]); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// A file builds on a protocol, and what contradicts itself is refused with its place.
func TestProtocolFiles(t *testing.T) {
	base := "version: 1\nbase: ens10\n"
	p := loadProtocol(t, write(t, "own.yaml", base+"title: mine\nhindcasts: {last_year: 2000}\n"))
	if p.Title != "mine" || p.Hindcasts.LastYear != 2000 || len(p.Hindcasts.Dates) != 105 || p.Published != nil {
		t.Errorf("%q to %d, %d scores", p.Title, p.Hindcasts.LastYear, len(p.Published))
	}
	for _, c := range []struct{ text, want string }{
		{base + "hindcasts: {last_year: 1990}\n", "hindcasts.last_year is before hindcasts.first_year"},
		{base + "hindcasts: {dates: [\"0104\", \"0101\"]}\n", `unsorted calendar day "0101"`},
		{base + "hindcasts: {dates: [\"0230\"]}\n", `calendar day "0230"`},
		{base + "hindcasts: {files: [{name: a, levels: [850hPa], variables: [t]}]}\n", "has no {date}"},
		{base + "analyses: {leads: [12h]}\n", "lead 12h is not one of hindcasts.leads"},
		{base + "tasks: [{name: x, variable: t, level: 600hPa, lead: 48h, inputs: [t]}]\n", "no file contains the inputs of task x"},
		{"version: 1\nbase: ens11\n", "did you mean `ens10`?"},
		{base + "hindcast: {}\n", "unknown key"},
	} {
		if _, err := Load(write(t, "bad.yaml", c.text)); exit.CodeOf(err) != exit.Usage || !strings.Contains(all(err), c.want) {
			t.Errorf("%q: %v, want %q", c.text, all(err), c.want)
		}
	}
	if _, err := Load("ens01"); exit.CodeOf(err) != exit.Usage || !strings.Contains(all(err), "did you mean `ens10`?") {
		t.Error(all(err))
	}
}

// all is an error with those behind it and their remedies.
func all(err error) string {
	e, ok := err.(*exit.Error)
	if !ok {
		return ""
	}
	text := e.Error() + " " + e.Fix
	for _, m := range e.More {
		text += "\n" + m.Error() + " " + m.Fix
	}
	return text
}
