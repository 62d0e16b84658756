package fio

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// ReadWindow and ReadInto return the window of the fields that Read returns, on its
// grid, for fields of all kinds of files.
func TestReadWindow(t *testing.T) {
	compared := 0
	for _, pattern := range []string{"formats/grib1/*", "formats/grib2/*", "formats/netcdf/*", "mogreps-uk/sites-t2m/history/*", "gcm/gcm_an_1983.nc"} {
		set := pattern[:len(pattern)-len(filepath.Base(pattern))]
		paths, err := filepath.Glob(filepath.Join(testdata.Dir(t, filepath.ToSlash(filepath.Clean(set))), filepath.Base(pattern)))
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, p := range paths {
			in, err := Open(context.Background(), []string{p}, Options{Pool: children(t), SkipBad: true})
			if err != nil {
				continue // variables without fields are tested elsewhere
			}
			entries := in.Catalogue().Entries
			if len(entries) > 3 {
				entries = entries[len(entries)-3:]
			}
			for _, e := range entries {
				g := e.Grid
				whole, err := in.ReadOne(context.Background(), e)
				if err != nil {
					continue
				}
				w := ensemble.Window{Rows: [2]int{g.NY / 3, g.NY}, Cols: [2]int{g.NX / 4, max(g.NX*3/4, g.NX/4+1)}}
				want := ensemble.CropField(whole.Values, g, w)
				err = in.ReadWindow(context.Background(), []ensemble.Entry{e}, w, func(_ int, f *ensemble.Field) error {
					if len(f.Values) != len(want) || f.Grid.Size() != len(want) || f.Grid.LatAt(0, 0) != g.LatAt(w.Rows[0], w.Cols[0]) || f.Grid.LonAt(0, 0) != g.LonAt(w.Rows[0], w.Cols[0]) {
						t.Errorf("%s: %d values, want %d; grid %v of %v", p, len(f.Values), len(want), f.Grid, g)
						return nil
					}
					for i, x := range f.Values {
						if x != want[i] && !(math.IsNaN(float64(x)) && math.IsNaN(float64(want[i]))) {
							t.Errorf("%s, %s: point %d is %g, want %g", p, e.Key, i, x, want[i])
							break
						}
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s: %v", p, err)
				}
				for _, w := range []ensemble.Window{w, {}} {
					into, called := [][]float32{make([]float32, g.SizeOf(w))}, 0
					if err := in.ReadInto(context.Background(), []ensemble.Entry{e}, w, given(into), func(int) error { called++; return nil }); err != nil || called != 1 {
						t.Fatalf("%s: fill: %v, %d fields", p, err, called)
					}
					if !slices.EqualFunc(into[0], ensemble.CropField(whole.Values, g, w), sameBits) {
						t.Errorf("%s, %s: filled memory differs in window %v", p, e.Key, w)
					}
				}
				compared++
			}
			in.Close()
		}
	}
	if compared < 50 {
		t.Errorf("%d fields compared", compared)
	}
}

// ReadInto rejects memory of another size, and stops at an error of its callbacks.
func TestReadIntoErrors(t *testing.T) {
	in := open(t, Options{}, filepath.Join(testdata.Dir(t, "gcm"), "gcm_fc_198201.grib2"))
	entries := in.Catalogue().Entries[:20]
	room := func(n int) [][]float32 {
		into := make([][]float32, len(entries))
		for i, e := range entries {
			into[i] = make([]float32, e.Grid.Size()+n)
		}
		return into
	}
	if err := in.ReadInto(context.Background(), entries, ensemble.Window{}, given(room(1)), func(int) error { return nil }); err == nil {
		t.Error("memory of another size is filled")
	}
	stop := errors.New("stop")
	if err := in.ReadInto(context.Background(), entries, ensemble.Window{}, given(room(0)), func(i int) error {
		if i == 3 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Errorf("error %v, want that of the callback", err)
	}
}

// given returns memory for entries.
func given(into [][]float32) func(i int) ([]float32, error) {
	return func(i int) ([]float32, error) { return into[i], nil }
}
