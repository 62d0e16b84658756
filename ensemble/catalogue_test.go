package ensemble

import (
	"testing"
	"time"
)

func entries(skip func(Entry) bool) []Entry {
	grid := testGrid(4, 5, true)
	kind := &Kind{Unit: "K", Grid: grid}
	init := InitAt(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	var out []Entry
	for _, lead := range []Lead{0, Lead(24 * time.Hour)} {
		for _, l := range []Level{PressureLevel(500), PressureLevel(850)} {
			for m := range Member(4) {
				e := Entry{Key: Key{Variable: "t", Level: l, Member: m, Init: init, Lead: lead}, Kind: kind, File: "f", Message: len(out) + 1, Sub: 1}
				if !skip(e) {
					out = append(out, e)
				}
			}
		}
	}
	return out
}

func TestHoles(t *testing.T) {
	full := Catalogue{Entries: entries(func(Entry) bool { return false })}
	if g := full.Groups(); len(g) != 1 || g[0].Count != 16 || len(g[0].Missing) != 0 || len(g[0].Grids) != 1 {
		t.Fatalf("groups %+v", g)
	}
	c := Catalogue{Entries: entries(func(e Entry) bool {
		return e.Member == 2 && e.Lead > 0 || e.Member == 3 && e.Lead > 0 && e.Level == PressureLevel(850)
	})}
	h := c.Groups()[0].Missing
	if len(h) != 2 {
		t.Fatalf("holes %v", h)
	}
	if got, want := h[0].String(), "t 850hPa member init 2020-01-01T00:00Z lead 24h: member 2-3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := h[1].String(), "t 500hPa member init 2020-01-01T00:00Z lead 24h: member 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDuplicates(t *testing.T) {
	e := entries(func(Entry) bool { return false })
	twice := e[5]
	twice.File = "g"
	interval := e[6]
	interval.Kind = &Kind{Unit: "K", Interval: Lead(6 * time.Hour), Statistic: "mean"} // another quantity
	c := Catalogue{Entries: append(e, twice, interval)}
	if d := c.Duplicates(); len(d) != 1 || len(d[0]) != 2 || d[0][1].File != "g" {
		t.Errorf("duplicates %v", d)
	}
}

func TestMemberRanges(t *testing.T) {
	for _, c := range []struct {
		m    []Member
		want string
	}{{[]Member{0, 1, 2, 9}, "0-2, 9"}, {[]Member{NoMember}, "-"}, {[]Member{3}, "3"}, {[]Member{1, 3, 5}, "1, 3, 5"}} {
		if got := MemberRanges(c.m); got != c.want {
			t.Errorf("%v: %q, want %q", c.m, got, c.want)
		}
	}
}
