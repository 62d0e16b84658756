package ensemble

import (
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// daily returns inits at the given dates.
func daily(t *testing.T, dates ...string) []Init {
	t.Helper()
	var out []Init
	for _, d := range dates {
		at, err := time.Parse(time.DateOnly, d)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Init{at})
	}
	return out
}

// Blocks are whole years; inits whose forecasts overlap with the block are in neither part.
func TestFolds(t *testing.T) {
	inits := daily(t, "2001-06-01", "2001-12-30", "2002-01-01", "2002-07-01", "2002-12-30", "2003-01-03", "2003-05-01")
	folds, err := Folds(inits, 3, Lead(48*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Fold{
		{Train: []int{3, 4, 5, 6}, HeldOut: []int{0, 1}}, // 2 begins when 1 is valid
		{Train: []int{0, 5, 6}, HeldOut: []int{2, 3, 4}}, // 4 is valid before 5 begins
		{Train: []int{0, 1, 2, 3, 4}, HeldOut: []int{5, 6}},
	} {
		if !slices.Equal(folds[i].Train, want.Train) || !slices.Equal(folds[i].HeldOut, want.HeldOut) {
			t.Errorf("fold %d: %v, want %v", i, folds[i], want)
		}
	}
}

// Every init is held out once, and blocks of n years in k parts differ by one year at most.
func TestFoldsPartition(t *testing.T) {
	var inits []Init
	for year := range 15 {
		for month := range 12 {
			inits = append(inits, Init{time.Date(1999+year, time.Month(1+month), 15, 0, 0, 0, 0, time.UTC)})
		}
	}
	for _, k := range []int{2, 4, 15} {
		folds, err := Folds(inits, k, Lead(48*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var met []int
		for _, f := range folds {
			if years := len(f.HeldOut) / 12; years < 15/k || years > 15/k+1 {
				t.Errorf("%d blocks: one of %d years", k, years)
			}
			met = append(met, f.HeldOut...)
		}
		if !slices.IsSorted(met) || len(met) != len(inits) {
			t.Errorf("%d blocks hold %d of %d starts, in order: %v", k, len(met), len(inits), slices.IsSorted(met))
		}
	}
}

func TestFoldsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		dates []string
		k     int
	}{
		"one block":      {[]string{"2001-06-01", "2002-06-01"}, 1},
		"too few years":  {[]string{"2001-06-01", "2002-06-01"}, 3},
		"all of another": {[]string{"2001-12-31", "2002-01-01"}, 2},
	} {
		if _, err := Folds(daily(t, c.dates...), c.k, Lead(48*time.Hour)); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: error %v, want exit 64", name, err)
		}
	}
}

// With fewer years than blocks, blocks are runs of inits, and inits within the gap are in neither
// part.
func TestGapFolds(t *testing.T) {
	inits := daily(t, "2001-06-01", "2001-06-08", "2001-06-15", "2001-06-22", "2001-06-29", "2001-07-06")
	folds, err := GapFolds(inits, 3, Lead(48*time.Hour), 5*24*time.Hour) // 7 days between inits, of which the forecast takes 2
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Fold{{Train: []int{3, 4, 5}, HeldOut: []int{0, 1}}, {Train: []int{0, 5}, HeldOut: []int{2, 3}}, {Train: []int{0, 1, 2}, HeldOut: []int{4, 5}}} {
		if !slices.Equal(folds[i].Train, want.Train) || !slices.Equal(folds[i].HeldOut, want.HeldOut) {
			t.Errorf("fold %d: %v, want %v", i, folds[i], want)
		}
	}
	years := daily(t, "2001-06-01", "2002-06-01", "2002-06-30")
	if folds, err = GapFolds(years, 2, Lead(48*time.Hour), 0); err != nil || !slices.Equal(folds[1].HeldOut, []int{1, 2}) {
		t.Errorf("two years in two blocks: %v, %v", folds, err)
	}
	for name, c := range map[string]struct {
		inits []Init
		k     int
		gap   time.Duration
	}{"one block": {inits, 1, 0}, "too few starts": {inits, 7, 0}, "all in the gap": {inits, 2, 1000 * time.Hour}} {
		if _, err := GapFolds(c.inits, c.k, Lead(48*time.Hour), c.gap); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: error %v, want exit 64", name, err)
		}
	}
}
