// Package optimum scores the oracle of a benchmark with a known optimum, an ensemble that no forecast can be better than, and
// computes the share of the way to it that other systems come.
package optimum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Oracle is the name of the oracle among the systems.
const Oracle = "oracle"

// Options are the inputs of [Score].
type Options struct {
	Oracle, Analyses []string // files
	Targets          []score.Target
	Inits            []ensemble.Init // of the other systems' scores, ascending
	Regions          []string        // as in the other systems' trainings
	Progress         *progress.Reporter
}

// CheckInits checks that the files of an oracle have some initialisations. No values are read.
//
// Errors: those of fio.Open; exit 66 for initialisations without oracle.
func CheckInits(ctx context.Context, files []string, inits []ensemble.Init) error {
	in, err := fio.Open(ctx, files, fio.Options{})
	if err != nil {
		return err
	}
	defer in.Close()
	return missing(in.Catalogue().Inits(), inits, files)
}

// missing is the error for initialisations without oracle; nil if there are none.
func missing(have, want []ensemble.Init, files []string) error {
	absent := slices.DeleteFunc(slices.Clone(want), func(i ensemble.Init) bool { return slices.Contains(have, i) })
	if len(absent) == 0 {
		return nil
	}
	return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("the oracle lacks %d of %d test initialisations", len(absent), len(want)), At: input.FileList(files),
		Why: "the first is " + absent[0].String(), Fix: "test on the years that have an oracle, or leave out data.oracle"}
}

// Score scores the oracle's members by target: plain and fair CRPS, ranks, spread, coupling.
//
// Returns: all scores, and in Dates and RegionDates both kinds of CRPS by initialisation.
// Errors: those of fio.Open; exit 66 for initialisations or analyses that are missing; 65 for fields that cannot be used.
func Score(ctx context.Context, o Options) (*score.Result, error) {
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	oracle, err := fio.Open(ctx, o.Oracle, fio.Options{Pool: pool})
	if err != nil {
		return nil, err
	}
	defer oracle.Close()
	analyses, err := fio.Open(ctx, o.Analyses, fio.Options{Pool: pool})
	if err != nil {
		return nil, err
	}
	defer analyses.Close()
	all := &score.Result{}
	task := o.Progress.Start("score the oracle", int64(len(o.Targets)*len(o.Inits)))
	defer task.Done()
	done := 0
	for _, t := range o.Targets {
		r, err := o.scoreTarget(ctx, oracle, analyses, t, func() { done++; task.Set(int64(done), "") })
		if err != nil {
			return nil, err
		}
		all.Append(r)
	}
	return all, nil
}

// scoreTarget scores one target.
func (o *Options) scoreTarget(ctx context.Context, oracle, analyses *fio.Input, t score.Target, scored func()) (*score.Result, error) {
	axes := ensemble.Axes{Variables: []string{t.Variable}, Levels: []ensemble.Level{t.Level}, Leads: []ensemble.Lead{t.Lead}}
	members, err := input.SelectForecasts(oracle, input.RequiredFields{Axes: axes, Members: oracle.Catalogue().Members(), OfTraining: true}, input.Destination{}, input.StatisticRequest{})
	if err != nil {
		return nil, err
	}
	if err := missing(members.Inits, o.Inits, o.Oracle); err != nil {
		return nil, err
	}
	valids := make([]ensemble.Valid, len(o.Inits))
	for i, init := range o.Inits {
		valids[i] = init.Valid(t.Lead)
	}
	truth, err := input.SelectAnalyses(analyses, input.AnalysisRequest{Variables: axes.Variables, Levels: axes.Levels, Valids: valids}, input.Destination{Grid: members.Grid, Fix: "give analyses on the grid of the oracle"})
	if err != nil {
		return nil, err
	}
	s, err := scoring.TargetOptions{Target: t, Grid: members.Grid, DDOF: 1, Inits: o.Inits, Source: score.FromProducts, Selection: scoring.Selection{Regions: o.Regions}}.Begin(scoring.Shape{Obs: true, Calibrated: len(members.Members)})
	if err != nil {
		return nil, err
	}
	for i, init := range o.Inits {
		fc, _, err := members.Read(ctx, []ensemble.Init{init}, nil)
		if err != nil {
			return nil, err
		}
		obs, _, err := truth.Read(ctx, valids[i:i+1], nil)
		if err != nil {
			return nil, err
		}
		c := scoring.Case{Init: init, Obs: obs[0].Field(0, 0)}
		for m := range fc[0].Members {
			c.Calibrated = append(c.Calibrated, fc[0].Field(0, m, 0, 0))
		}
		sums, err := s.Sum(c)
		if err == nil {
			err = s.Join(sums)
		}
		if err != nil {
			return nil, err
		}
		scored()
	}
	r, err := s.Result()
	if err != nil {
		return nil, err
	}
	rename(r)
	r.Dates, r.RegionDates = withFair(r.Dates, s), withFair(r.RegionDates, s)
	return r, nil
}

// rename gives the oracle its name.
func rename(r *score.Result) {
	for i := range r.Scores {
		r.Scores[i].System = Oracle
	}
	for i := range r.Ranks {
		r.Ranks[i].System = Oracle
	}
	for i := range r.Diagrams {
		r.Diagrams[i].System = Oracle
	}
	for i := range r.Coupling {
		r.Coupling[i].System = Oracle
	}
	for _, dates := range [][]score.DateScore{r.Dates, r.RegionDates} {
		for i := range dates {
			dates[i].System = Oracle
		}
	}
}

// withFair adds the fair CRPS by region and initialisation to the plain one.
func withFair(dates []score.DateScore, s *scoring.Scoring) []score.DateScore {
	fair := map[string]map[ensemble.Init]score.WeightedSum{}
	for _, d := range slices.Clone(dates) {
		if fair[d.Region] == nil {
			fair[d.Region] = s.CRPSByInit(d.Region)
		}
		for init, x := range fair[d.Region] {
			if init.Format(time.RFC3339) == d.Init {
				d.Score, d.CRPS = score.CRPSFair.ID, score.Number(x.Sum/x.Weight)
				dates = append(dates, d)
			}
		}
	}
	return dates
}
