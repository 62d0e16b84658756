package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// maxClimateBytes limits the bytes of values held while quantiles are computed; larger data are read in several
// passes.
const maxClimateBytes = 1 << 30

// fitClimate computes quantiles of a task's scored targets over the samples before the test period: of all
// members, or of the analyses. On several ranks rank 0 computes; the other ranks return nil.
//
// Memory: maxClimateBytes, or the values of one point if that is more.
// Cost: reads the samples once per target variable and lead, and per maxClimateBytes of values.
func fitClimate(ctx context.Context, k *task.Task, o config.Climate, d *samples.Data) (*task.Climate, error) {
	defer progress.Start(ctx, "climate", 0).Done()
	past, grid, ranks := d.BeforeTest(), d.Grid, d.Ranks
	n, depth, members := grid.Size(), len(k.Features.Axes.Levels), 1
	if o.Source == config.ClimateMembers {
		members = k.FullMembers
	}
	first, last := past.Inits[0], past.Inits[len(past.Inits)-1]
	c := &task.Climate{Source: o.Source, Period: ensemble.Period{From: first.Time, To: last.Time}, Dates: len(past.Inits), Steps: o.Steps, Windows: o.Windows, Days: o.Days, Grid: grid}
	band := max(1, maxClimateBytes/(4*len(past.Inits)*members*depth))
	for v, one := range k.Targets {
		var valid []time.Time
		for _, init := range past.Inits {
			valid = append(valid, init.Valid(one.Lead).Time)
		}
		var levels []int
		for l := range depth {
			if k.TargetWeights[v*depth+l] > 0 {
				levels = append(levels, l)
				c.Targets = append(c.Targets, task.ClimateTarget{Variable: one.Variable, Level: k.Features.Axes.Levels[l].ForVariable(one.Variable), Lead: one.Lead.String()})
				c.Quantiles = append(c.Quantiles, c.NewQuantiles())
			}
		}
		fits := c.Quantiles[len(c.Quantiles)-len(levels):]
		for lo := 0; lo < n && len(levels) > 0; lo += band {
			hi := min(n, lo+band)
			fields := make([][][][]float32, len(levels)) // [level][date][member][point]
			err := past.Each(ctx, ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
				part, err := climateFields(k, fc, a, v, o.Source)
				if err != nil {
					return err
				}
				whole, err := team.GatherFields(ranks, part, members)
				if err != nil || !ranks.IsRoot() {
					return err
				}
				for at, l := range levels {
					date := make([][]float32, members)
					for m := range date {
						date[m] = slices.Clone(whole[(m*depth+l)*n:][lo:hi])
					}
					fields[at] = append(fields[at], date)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			if ranks.IsRoot() {
				for at := range levels {
					c.MinValues = fits[at].Fit(lo, hi, valid, fields[at])
				}
			}
		}
	}
	if !ranks.IsRoot() {
		return nil, nil
	}
	return c, nil
}

// climateFields returns the values of target v on one date.
//
// Shape: [member][level][point] of the forecast, or [level][point] of the analysis.
func climateFields(k *task.Task, fc *ensemble.Forecast, a []*ensemble.Analysis, v int, of string) (part []float32, err error) {
	t, x := k.TargetInForecast(fc, v)
	if of == config.ClimateMembers {
		for m := range fc.Members {
			for l := range fc.Axes.Levels {
				part = append(part, fc.Field(t, m, x, l)...)
			}
		}
		return part, nil
	}
	for _, level := range fc.Axes.Levels {
		obs, err := k.AnalysisField(a, fc.Init, v, level)
		if err != nil {
			return nil, err
		}
		part = append(part, obs...)
	}
	return part, nil
}

// CheckClimateGrid checks that a climate is defined on a grid.
//
// Errors: exit 65.
func CheckClimateGrid(c *task.Climate, g *ensemble.Grid, path string) error {
	if c.Grid.SameAs(g, input.GridTolerance) {
		return nil
	}
	return &exit.Error{Code: exit.BadData, What: "the climate is on another grid", At: path, Why: fmt.Sprintf("its grid is %s, that of the forecasts %s", c.Grid, g),
		Fix: "give the climate of a training on the grid of the forecasts"}
}

// LoadOrFitClimate loads or fits the climate that a configuration requests; nil for none.
//
// Errors: exit 65 for a file that is damaged or on another grid; 66 for a missing file; those of reading
// samples.
func LoadOrFitClimate(ctx context.Context, o config.Climate, k *task.Task, d *samples.Data) (c *task.Climate, warnings []string, err error) {
	grid, ranks := d.Grid, d.Ranks
	switch {
	case o.File != "":
		if !ranks.IsRoot() {
			return nil, nil, ranks.AgreeOnError(nil)
		}
		if c, err = task.LoadClimate(string(o.File)); err == nil {
			err = CheckClimateGrid(c, grid, string(o.File))
		}
		if err = ranks.AgreeOnError(err); err != nil {
			return nil, nil, err
		}
		return c, nil, nil
	case o.Source == config.NoClimate:
		return nil, nil, nil
	}
	if c, err = fitClimate(ctx, k, o, d); c == nil || err != nil {
		return nil, nil, err
	}
	return c, c.Warnings(), nil
}
