package samples

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// ReadAuxiliary reads the auxiliary fields on a grid and standardises each, weighted by area. Missing values,
// such as land properties over the sea, become 0, the mean.
//
// Rank 0 reads them and sends them to the others.
//
// Errors: those of fio.Open; exit 65 for a variable with no or several fields, on another grid without
// interpolation, or with a constant value.
func ReadAuxiliary(ctx context.Context, c *config.TrainConfig, to []ensemble.Auxiliary, grid *ensemble.Grid, ranks *team.Team) error {
	if len(to) == 0 {
		return nil
	}
	var err error
	if ranks.IsRoot() {
		err = readAuxiliary(ctx, c, to, grid)
	}
	if err := ranks.AgreeOnError(err); err != nil || ranks == nil {
		return err
	}
	for i := range to {
		if to[i].Values, err = team.Broadcast(ranks, to[i].Values); err != nil {
			return err
		}
	}
	return nil
}

// readAuxiliary is ReadAuxiliary on one rank.
func readAuxiliary(ctx context.Context, c *config.TrainConfig, to []ensemble.Auxiliary, grid *ensemble.Grid) error {
	files, err := input.ConfigFiles("data.auxiliary.files", c.Data.Auxiliary.Files)
	if err != nil {
		return err
	}
	o := input.ReaderOptions(c, false)
	o.Static = true
	in, err := fio.Open(ctx, files, o)
	if err != nil {
		return err
	}
	defer in.Close()
	var entries []ensemble.Entry
	for _, a := range to {
		found := in.Catalogue().Select(func(e ensemble.Entry) bool { return e.Variable == a.Name })
		if len(found) != 1 {
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("%d fields of %s, want one constant field", len(found), a.Name), At: input.FileList(in.Files()),
				Why: "it is listed in data.auxiliary.variables", Fix: "`ensemble inspect FILE` lists the content of a file; give a file with one field of it"}
		}
		entries = append(entries, found[0])
	}
	if _, err := input.SplitFaults(input.DirectionFaults(entries)); err != nil {
		return err
	}
	d := input.Destination{Grid: grid, How: setup.InterpolationOf(c), Fix: input.FixGrid}
	for _, e := range entries {
		if !d.How.IsEnabled() && !e.Grid.SameAs(grid, input.GridTolerance) {
			return input.GridMismatchFault(e.Variable, e.Grid, "forecasts", grid, d.Fix).AtEntry(e).AsError()
		}
	}
	return input.NewGridReader(in, grid, d.How).Read(ctx, entries, func(i int, f *ensemble.Field) error {
		if to[i].Values = standardised(f.Values, grid.Weights()); to[i].Values == nil {
			return &exit.Error{Code: exit.BadData, What: to[i].Name + " has the same value at all points, or no value", At: input.Location(entries[i]), Why: "an auxiliary field must vary in space",
				Fix: "remove it from data.auxiliary.variables"}
		}
		return nil
	})
}

// standardised returns (x − weighted mean) / weighted standard deviation; nil if the latter is 0.
func standardised(x []float32, weights []float64) []float32 {
	var w, sum, sq float64
	for p, v := range x {
		if v == v {
			w += weights[p]
			sum += weights[p] * float64(v)
		}
	}
	mean := sum / w
	for p, v := range x {
		if v == v {
			sq += weights[p] * (float64(v) - mean) * (float64(v) - mean)
		}
	}
	scale := math.Sqrt(sq / w)
	if !(scale > 0) {
		return nil
	}
	out := slices.Clone(x)
	for p, v := range x {
		out[p] = task.ZeroIfNaN(float32((float64(v) - mean) / scale))
	}
	return out
}
