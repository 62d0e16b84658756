package input

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Destination is the grid to which fields are interpolated, and how. A nil grid is the most common one of the
// input.
type Destination struct {
	Grid *ensemble.Grid
	How  task.Interpolation // interpolation; the zero value interpolates nothing
	Fix  string             // remedy if fields are on other grids and no method is given
}

// DestinationOf returns the grid that a configuration requests. Its grid is nil if the forecasts decide.
//
// Errors: those of fio.Open if the grid of analyses is requested; exit 64 for an invalid name; 65 if the
// analyses contain no target.
func DestinationOf(ctx context.Context, c *config.TrainConfig, open Opener) (Destination, error) {
	d := Destination{How: setup.InterpolationOf(c), Fix: FixGrid}
	switch {
	case c.Data.Grid.IsNamed():
		g, err := ensemble.NamedGrid(c.Data.Grid.To)
		if err != nil {
			return d, &exit.Error{Code: exit.Usage, What: err.Error(), At: "data.grid.to", Fix: "give a grid such as 1.5deg", Err: err}
		}
		d.Grid = g
	case c.Data.Grid.To == "analyses":
		files, err := ConfigFiles("data.analyses", c.Data.Analyses)
		if err != nil {
			return d, err
		}
		in, err := open(ctx, files, ReaderOptions(c, false))
		if err != nil {
			return d, err
		}
		defer in.Close()
		targets := setup.TargetVariables(c)
		entries := in.Catalogue().Select(func(e ensemble.Entry) bool {
			return (e.Lead == 0 || e.Statistic != "") && e.Product == ensemble.MemberField && slices.Contains(targets, e.Variable) && slices.Contains(c.Data.Levels, e.Level)
		})
		if len(entries) == 0 {
			return d, &exit.Error{Code: exit.BadData, What: "the analyses contain no target", At: FileList(in.Files()), Why: "data.grid.to requests their grid",
				Fix: "`ensemble inspect FILE` lists the content of a file"}
		}
		d.Grid = MostCommonGrid(entries)
	}
	return d, nil
}

// MostCommonGrid returns the grid of most entries; of equally common ones the first.
func MostCommonGrid(entries []ensemble.Entry) *ensemble.Grid {
	count := map[*ensemble.Grid]int{}
	best := entries[0].Grid
	for _, e := range entries {
		count[e.Grid]++
	}
	for _, e := range entries {
		if count[e.Grid] > count[best] {
			best = e.Grid
		}
	}
	return best
}

// Resolve returns the grid on which entries are used.
//
// Errors: exit 65 without entries, for several grids without a requested one, and for grids that are not
// rectangular.
func (d Destination) Resolve(entries []ensemble.Entry) (*ensemble.Grid, error) {
	g := d.Grid
	switch {
	case d.How.IsEnabled() && len(entries) > 0:
		// The input's own grid object has the scan order of the files.
		if own := MostCommonGrid(entries); g == nil || own.SameAs(g, GridTolerance) {
			g = own
		}
	default:
		var err error
		if g, err = CommonGrid(entries, d.Fix); err != nil {
			return nil, err
		}
	}
	if g.Rows != nil {
		return nil, reducedGridFault(g, "set another grid in data.grid.to, for example 1deg").AtEntry(entries[0]).AsError()
	}
	return g, nil
}

// reducedGridFault returns the fault of a reduced grid, on which networks cannot work.
func reducedGridFault(g *ensemble.Grid, fix string) Fault {
	return Fault{Kind: FaultGrid, Code: exit.BadData, What: "the fields are on a reduced grid",
		Why: fmt.Sprintf("%s: networks and maps need rows with equal numbers of points", g), Fix: fix}
}

// Remedies for grids that differ, in a configuration and on the command line.
const (
	FixGrid   = "interpolate: under `data:` add `grid: {to: forecasts}`, or another grid such as 1deg"
	FixRegrid = "interpolate: add `--regrid bilinear`, or train with data.grid"
)

// Faults returns the faults of grids that are not interpolated.
func (d Destination) Faults(entries []ensemble.Entry) []Fault {
	if d.How.IsEnabled() {
		return nil
	}
	faults := GridFaults(entries, d.Fix)
	if at := slices.IndexFunc(entries, func(e ensemble.Entry) bool { return e.Grid.Rows != nil }); at >= 0 {
		faults = append(faults, reducedGridFault(entries[at].Grid, d.Fix).AtEntry(entries[at]))
	}
	return faults
}

// GridReader reads the fields of an input on one grid and interpolates as necessary. It is safe for concurrent
// use.
type GridReader struct {
	in      *fio.Input
	to      *ensemble.Grid
	how     task.Interpolation
	mu      sync.Mutex
	weights map[*ensemble.Grid]*regrid.Weights // by source grid; nil for the target grid
}

// NewGridReader returns a reader of an input's fields on a grid.
func NewGridReader(in *fio.Input, to *ensemble.Grid, how task.Interpolation) *GridReader {
	return &GridReader{in: in, to: to, how: how, weights: map[*ensemble.Grid]*regrid.Weights{}}
}

// Prepare computes the interpolation weights for entries, which reading would do otherwise.
//
// Errors: exit 65 if an entry cannot be interpolated to the grid.
func (r *GridReader) Prepare(entries []ensemble.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if _, known := r.weights[e.Grid]; !known {
			w, err := r.weightsFor(e)
			if err != nil {
				return err
			}
			r.weights[e.Grid] = w
		}
		if v, known := ensemble.VariableNamed(e.Variable); known && v.WindComponent() && e.Grid.WindAlongAxes && r.weights[e.Grid] != nil {
			return &exit.Error{Code: exit.BadData, What: "wind components along grid axes cannot be interpolated", At: Location(e),
				Why: e.Variable + " is not eastward or northward on this grid", Fix: "rotate them to east and north first, for example with `cdo rotuvb`, or exclude them"}
		}
	}
	return nil
}

// weightsFor returns the weights from the grid of an entry; nil if it is the target grid.
func (r *GridReader) weightsFor(e ensemble.Entry) (*regrid.Weights, error) {
	if e.Grid.SameAs(r.to, GridTolerance) {
		return nil, nil
	}
	w, err := regrid.New(e.Grid, r.to, regrid.Options{Method: r.how.Method, MinValid: r.how.MinValid})
	why := "no point of %[2]s lies within %[1]s"
	if err == nil && w.Covered() > 0 {
		return w, nil
	} else if err != nil {
		why = err.Error() + "; from %[1]s to %[2]s"
	}
	return nil, &exit.Error{Code: exit.BadData, What: "fields cannot be interpolated to the requested grid", At: Location(e), Why: fmt.Sprintf(why, e.Grid, r.to),
		Fix: "choose another grid or method of data.grid", Err: err}
}

// preparedWeights returns the prepared weights of an entry; nil if it is on the target grid.
func (r *GridReader) preparedWeights(e ensemble.Entry) *regrid.Weights {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weights[e.Grid]
}

// Read reads complete fields, as fio.Input does.
func (r *GridReader) Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	if err := r.Prepare(entries); err != nil {
		return err
	}
	return r.in.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		if w := r.preparedWeights(entries[i]); w != nil {
			values := make([]float32, r.to.Size())
			regrid.Apply(w, values, f.Values)
			r.in.Recycle(f.Values)
			f.Values = values
		}
		f.Grid = r.to
		return visit(i, f)
	})
}

// Fill reads a window of fields into memory of the caller, as fio.Input does. Fields on other grids are read
// completely.
func (r *GridReader) Fill(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, into func(i int) ([]float32, error), done func(i int) error) error {
	if err := r.Prepare(entries); err != nil {
		return err
	}
	var lists [2][]ensemble.Entry // entries on the target grid, and others
	var at [2][]int
	for i, e := range entries {
		k := 0
		if r.preparedWeights(e) != nil {
			k = 1
		}
		lists[k], at[k] = append(lists[k], e), append(at[k], i)
	}
	if err := r.in.ReadInto(ctx, lists[0], w, func(i int) ([]float32, error) { return into(at[0][i]) }, func(i int) error { return done(at[0][i]) }); err != nil {
		return err
	}
	parts := map[*ensemble.Grid]*regrid.Weights{}
	return r.in.Read(ctx, lists[1], func(i int, f *ensemble.Field) error {
		if parts[f.Grid] == nil {
			parts[f.Grid] = r.preparedWeights(lists[1][i]).Restrict(r.to, w)
		}
		to := at[1][i]
		values, err := into(to)
		if err != nil {
			return err
		}
		regrid.Apply(parts[f.Grid], values, f.Values)
		r.in.Recycle(f.Values)
		return done(to)
	})
}

// InterpolationByName returns the interpolation of a method in InterpolationMethods.
func InterpolationByName(method string) task.Interpolation {
	return task.Interpolation{Method: regrid.Method(method)}
}

// InterpolationMethods lists the names for InterpolationByName.
func InterpolationMethods() (words []string) {
	for _, m := range regrid.Methods {
		words = append(words, string(m))
	}
	return words
}
