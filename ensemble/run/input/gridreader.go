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

// Destination is a grid, or nil for the one that most fields have, and how others come
// there.
type Destination struct {
	Grid *ensemble.Grid
	How  task.Interpolation
	Fix  string // what helps if fields are not there and no way is given
}

// DestinationOf finds the grid that a configuration asks for, where it does not follow
// from the forecasts.
//
// Errors: those of fio.Open for analyses whose grid is asked for; 65 if they hold no field
// of a target.
func DestinationOf(ctx context.Context, c *config.TrainConfig) (Destination, error) {
	d := Destination{How: setup.InterpolationOf(c), Fix: FixGrid}
	switch {
	case c.Data.Grid.IsNamed():
		g, err := ensemble.NamedGrid(c.Data.Grid.To)
		if err != nil {
			return d, &exit.Error{Code: exit.Usage, What: err.Error(), At: "data.grid.to", Fix: "name a grid such as 1.5deg", Err: err}
		}
		d.Grid = g
	case c.Data.Grid.To == "analyses":
		files, err := ConfigFiles("data.analyses", c.Data.Analyses)
		if err != nil {
			return d, err
		}
		in, err := fio.Open(ctx, files, ReaderOptions(c, false))
		if err != nil {
			return d, err
		}
		defer in.Close()
		targets := setup.TargetVariables(c)
		entries := in.Catalogue().Select(func(e ensemble.Entry) bool {
			return e.Lead == 0 && e.Product == ensemble.MemberField && slices.Contains(targets, e.Variable) && slices.Contains(c.Data.Levels, e.Level)
		})
		if len(entries) == 0 {
			return d, &exit.Error{Code: exit.BadData, What: "the analyses hold no field of a target", At: FileList(in.Files()), Why: "their grid is asked for by data.grid.to",
				Fix: "`ensemble inspect FILE` lists what a file holds"}
		}
		d.Grid = MostCommonGrid(entries)
	}
	return d, nil
}

// MostCommonGrid is the grid of most entries, of several the first one's.
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

// Resolve gives the grid on which entries are used.
//
// Errors: exit 65 if there are none, if they are on several grids and none is asked for,
// or if the grid is no rectangle.
func (d Destination) Resolve(entries []ensemble.Entry) (*ensemble.Grid, error) {
	g := d.Grid
	switch {
	case d.How.IsEnabled() && len(entries) > 0:
		// The input's own object knows in which order files have the points.
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
		return nil, reducedGridFault(g, "name another grid in data.grid.to, for example 1deg").AtEntry(entries[0]).AsError()
	}
	return g, nil
}

// reducedGridFault says that networks cannot work on a reduced grid.
func reducedGridFault(g *ensemble.Grid, fix string) Fault {
	return Fault{Kind: FaultGrid, Code: exit.BadData, What: "the fields are on a reduced grid",
		Why: fmt.Sprintf("%s: networks and maps need rows of equally many points", g), Fix: fix}
}

// What helps where grids do not fit: in a configuration, and on the command line.
const (
	FixGrid   = "interpolate: set data.grid.to, for example to 1deg, or to forecasts"
	FixRegrid = "interpolate: --regrid bilinear, or train with data.grid"
)

// Faults are those of the grids of entries that are not to be interpolated.
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

// GridReader reads the fields of an input on one grid, whatever grid they come on. Its methods
// may be called from several goroutines.
type GridReader struct {
	in      *fio.Input
	to      *ensemble.Grid
	how     task.Interpolation
	mu      sync.Mutex
	weights map[*ensemble.Grid]*regrid.Weights // nil for the grid itself
}

// NewGridReader makes the reader of fields on a grid.
func NewGridReader(in *fio.Input, to *ensemble.Grid, how task.Interpolation) *GridReader {
	return &GridReader{in: in, to: to, how: how, weights: map[*ensemble.Grid]*regrid.Weights{}}
}

// Prepare computes the weights for some entries, which reading them does else.
//
// Errors: exit 65 if an entry cannot be brought to the grid.
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
			return &exit.Error{Code: exit.BadData, What: "wind along the axes of its grid cannot be interpolated", At: Location(e),
				Why: e.Variable + " is not eastward or northward on this grid", Fix: "turn it to east and north first, for example with `cdo rotuvb`, or leave it out"}
		}
	}
	return nil
}

// weightsFor computes the weights from the grid of an entry.
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
	return nil, &exit.Error{Code: exit.BadData, What: "fields cannot be brought to the grid that is asked for", At: Location(e), Why: fmt.Sprintf(why, e.Grid, r.to),
		Fix: "choose another grid or method of data.grid", Err: err}
}

// preparedWeights gives the weights that were prepared for an entry; nil if it is on the grid.
func (r *GridReader) preparedWeights(e ensemble.Entry) *regrid.Weights {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weights[e.Grid]
}

// Read reads whole fields, as fio.Input does.
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

// Fill reads a window of fields on the grid into memory of the caller, as fio.Input does.
// Fields on other grids are read whole.
func (r *GridReader) Fill(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, into func(i int) ([]float32, error), done func(i int) error) error {
	if err := r.Prepare(entries); err != nil {
		return err
	}
	var lists [2][]ensemble.Entry // those on the grid, and others
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

// InterpolationByName is an interpolation by its method, one of InterpolationMethods.
func InterpolationByName(method string) task.Interpolation {
	return task.Interpolation{Method: regrid.Method(method)}
}

// InterpolationMethods are the words for InterpolationByName.
func InterpolationMethods() (words []string) {
	for _, m := range regrid.Methods {
		words = append(words, string(m))
	}
	return words
}
