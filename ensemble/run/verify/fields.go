package verify

import (
	"context"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// scoreFields converts the scores of a target at every point to fields.
func scoreFields(t score.Target, s *scoring.PlaceScores) []product.ScoreField {
	of := func(f product.ScoreField) product.ScoreField {
		f.Variable, f.Level, f.Lead = t.Variable, t.Level, t.Lead
		if f.Unit == "" {
			f.Unit = t.Unit
		}
		return f
	}
	dates := make([]float32, len(s.N))
	for p, n := range s.N {
		if dates[p] = float32(n); n == 0 {
			dates[p] = float32(math.NaN())
		}
	}
	all := []product.ScoreField{
		of(product.ScoreField{Score: "crps", LongName: "CRPS of " + s.System, Method: "mean", Values: s.CRPS}),
		of(product.ScoreField{Score: "bias", LongName: "bias of " + s.System, Method: "mean", Comment: "forecast mean minus analysis", Values: s.Bias}),
		of(product.ScoreField{Score: "rmse", LongName: "root mean square error of the mean of " + s.System, Method: "root_mean_square", Values: s.RMSE}),
		of(product.ScoreField{Score: "spread_skill", LongName: "spread-skill ratio of " + s.System, Unit: "1", Comment: "root mean square of the spread divided by that of the error; 1 is calibrated", Values: s.SpreadSkill}),
		of(product.ScoreField{Score: "n", LongName: "number of initialisations", Unit: "1", Method: "sum", Integers: true, Values: dates}),
	}
	for _, r := range s.References {
		skill, comment := make([]float32, len(r.CRPS)), "1 - CRPS / CRPS of "+r.System
		for i := range skill {
			skill[i] = 1 - s.CRPS[i]/r.CRPS[i]
		}
		if none := r.NoTest(); none != "" {
			comment += "; " + none
		}
		crps := "CRPS of "
		if _, raw := scoring.RawMembers(r.System); raw {
			crps = "plain CRPS of "
		}
		all = append(all,
			of(product.ScoreField{Score: "crps_" + r.System, LongName: crps + r.System, Method: "mean", Values: r.CRPS}),
			of(product.ScoreField{Score: "crpss_" + r.System, LongName: "skill score in CRPS of " + s.System + " relative to " + r.System, Unit: "1", Comment: comment, Values: skill}))
		if r.P == nil {
			continue
		}
		significant, limit := significance.FalseDiscovery(r.P, scoring.FieldFalseDiscoveries)
		p, mask := make([]float32, len(r.P)), make([]float32, len(r.P))
		for i := range p {
			p[i] = float32(r.P[i])
			switch {
			case math.IsNaN(r.P[i]):
				mask[i] = float32(math.NaN())
			case !significant[i]:
			case r.Difference[i] < 0:
				mask[i] = 1
			default:
				mask[i] = 2
			}
		}
		all = append(all,
			of(product.ScoreField{Score: "p_value_" + r.System, LongName: "p value of equal CRPS of " + s.System + " and " + r.System, Unit: "1", Comment: "Diebold-Mariano test of each point, with the measured memory from date to date", Values: p}),
			of(product.ScoreField{Score: "significant_" + r.System, LongName: "field significance of the difference in CRPS of " + s.System + " and " + r.System, Unit: "1", Flags: []string{"not_significant", "better", "worse"},
				Comment: fmt.Sprintf("Benjamini-Hochberg, false discovery rate %g: p values up to %.3g", scoring.FieldFalseDiscoveries, limit), Values: mask}))
	}
	return all
}

// writeFields writes the score fields of all targets.
//
// Errors: exit 65 if no target has a distribution or members; those of the encoder.
func (v *Verification) writeFields(ctx context.Context, path string) error {
	first, last := v.inits[0], v.inits[len(v.inits)-1]
	file := &product.ScoreFields{Grid: v.Grid, First: first, Last: last, Metadata: product.Metadata{Title: "Scores by place and lead", Source: "ensemble verify",
		References: "docs/verification.md", Command: v.Options.Command, Version: version.String(), Created: v.started}}
	for _, t := range v.Targets {
		if s := t.scoring.FieldScores(); s != nil {
			file.Fields = append(file.Fields, scoreFields(t.target(), s)...)
		}
	}
	if len(file.Fields) == 0 {
		return &exit.Error{Code: exit.BadData, What: "no score fields", At: path, Why: "the products hold only the spread of the full ensemble", Fix: "give products with mean and spread or with members, or leave out --fields"}
	}
	return product.WriteScoreFields(ctx, v.pool, path, file, product.Options{})
}

// places returns the scores by place for the maps of a report; nil without any.
func (v *Verification) places(all []*scoring.Scoring) *scoring.MapExample {
	e := &scoring.MapExample{Grid: v.Grid}
	for _, s := range all {
		e.AddPlaces(s)
	}
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}
