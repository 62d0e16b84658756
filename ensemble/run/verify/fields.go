package verify

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"golang.org/x/sync/errgroup"
)

// Significance of the score fields: of the points called significant at most this share is wrong in the mean. Wilks
// recommends twice the level of a single test, here 5 %.
//
// Source: Wilks 2016, doi:10.1175/BAMS-D-15-00267.1.
const fieldFalseDiscoveries = 0.1

// pointScores are the contributions of one initialisation at each point. A point that misses a value is NaN in all.
//
// Shape: [point].
type pointScores struct {
	CRPS     []float32 // of the products
	Raw      []float32 // plain CRPS of all raw members; nil without
	Error    []float32 // mean minus analysis
	Variance []float32 // square of the spread
}

// newPointScores computes the contributions of a case to the score fields of a target.
func (t *VerifiedTarget) newPointScores(c *scoring.Case) pointScores {
	n := len(c.Obs)
	d := pointScores{CRPS: make([]float32, n), Error: make([]float32, n), Variance: make([]float32, n)}
	mean, spread := c.Mean, c.Sigma
	if mean == nil {
		mean, spread = scoring.MeanStd(c.Calibrated, 1)
	}
	if len(c.Members) > 0 {
		d.Raw = make([]float32, n)
	}
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			par, at := make([]float64, len(c.Parameters)), make([]float64, max(len(c.Members), len(c.Calibrated)))
			for p := w * n / workers; p < (w+1)*n/workers; p++ {
				y := float64(c.Obs[p])
				crps := t.crps(c, p, y, par, at)
				raw := 0.0
				if d.Raw != nil {
					raw = membersCRPS(at, c.Members, p, y)
				}
				e, s := float64(mean[p])-y, float64(spread[p])
				if missing := crps + raw + e + s; missing != missing {
					crps, raw, e, s = math.NaN(), math.NaN(), math.NaN(), math.NaN()
				}
				d.CRPS[p], d.Error[p], d.Variance[p] = float32(crps), float32(e), float32(s*s)
				if d.Raw != nil {
					d.Raw[p] = float32(raw)
				}
			}
			return nil
		})
	}
	_ = g.Wait() // the workers return no errors
	return d
}

// crps is the CRPS of the products at a point: of their distribution, or plain of their members. par and at are scratch.
func (t *VerifiedTarget) crps(c *scoring.Case, p int, y float64, par, at []float64) float64 {
	switch {
	case c.Mean == nil:
		return membersCRPS(at, c.Calibrated, p, y)
	case t.Family != nil:
		return t.Family.CRPS(nil, model.ParameterFields(c.Parameters).At(par, p), y)
	}
	crps, _, _ := dist.NormalCRPS(float64(c.Mean[p]), float64(c.Sigma[p]), y)
	return crps
}

// membersCRPS is the plain CRPS of members at a point. at is scratch.
func membersCRPS(at []float64, members [][]float32, p int, y float64) float64 {
	for m, f := range members {
		at[m] = float64(f[p])
	}
	return dist.KernelCRPS(at[:len(members)], y, dist.Plain)
}

// pointSums are the sums of pointScores over the initialisations of a target.
//
// Memory: 4 bytes for each date and point, for the tests, and 44 for each point.
type pointSums struct {
	n                           []int32
	crps, raw, err, square, vrc []float64
	differences                 [][]float32 // CRPS minus that of the raw members, by date; nil without raw members
	factor                      float64     // of the spread-skill ratio: (M+1)/M for members
}

// add adds an initialisation.
func (s *pointSums) add(d pointScores) {
	if s.n == nil {
		n := len(d.CRPS)
		s.n = make([]int32, n)
		for _, x := range []*[]float64{&s.crps, &s.raw, &s.err, &s.square, &s.vrc} {
			*x = make([]float64, n)
		}
	}
	var difference []float32
	if d.Raw != nil {
		difference = make([]float32, len(d.CRPS))
		s.differences = append(s.differences, difference)
	}
	for p, c := range d.CRPS {
		if difference != nil {
			difference[p] = c - d.Raw[p]
		}
		if c != c {
			continue
		}
		s.n[p]++
		s.crps[p] += float64(c)
		s.err[p] += float64(d.Error[p])
		s.square[p] += float64(d.Error[p]) * float64(d.Error[p])
		s.vrc[p] += float64(d.Variance[p])
		if d.Raw != nil {
			s.raw[p] += float64(d.Raw[p])
		}
	}
}

// at returns a value computed at each point; NaN at points without a date.
func (s *pointSums) at(of func(p int, n float64) float64) []float32 {
	out := make([]float32, len(s.n))
	for p, n := range s.n {
		out[p] = float32(math.NaN())
		if n > 0 {
			out[p] = float32(of(p, float64(n)))
		}
	}
	return out
}

// fields returns the score fields of a target.
func (s *pointSums) fields(t score.Target, system, raw string) []product.ScoreField {
	of := func(f product.ScoreField) product.ScoreField {
		f.Variable, f.Level, f.Lead = t.Variable, t.Level, t.Lead
		if f.Unit == "" {
			f.Unit = t.Unit
		}
		return f
	}
	all := []product.ScoreField{
		of(product.ScoreField{Score: "crps", LongName: "CRPS of " + system, Method: "mean", Values: s.at(func(p int, n float64) float64 { return s.crps[p] / n })}),
		of(product.ScoreField{Score: "bias", LongName: "bias of " + system, Method: "mean", Comment: "forecast mean minus analysis", Values: s.at(func(p int, n float64) float64 { return s.err[p] / n })}),
		of(product.ScoreField{Score: "rmse", LongName: "root mean square error of the mean of " + system, Method: "root_mean_square", Values: s.at(func(p int, n float64) float64 { return math.Sqrt(s.square[p] / n) })}),
		of(product.ScoreField{Score: "spread_skill", LongName: "spread-skill ratio of " + system, Unit: "1", Comment: "root mean square of the spread divided by that of the error; 1 is calibrated",
			Values: s.at(func(p int, _ float64) float64 { return math.Sqrt(s.factor * s.vrc[p] / s.square[p]) })}),
		of(product.ScoreField{Score: "n", LongName: "number of initialisations", Unit: "1", Method: "sum", Integers: true, Values: s.at(func(_ int, n float64) float64 { return n })}),
	}
	if s.differences == nil {
		return all
	}
	p := score.DieboldMarianoMap(s.differences, 0)
	significant, limit := score.FalseDiscovery(p, fieldFalseDiscoveries)
	pValues := make([]float32, len(p))
	for i, x := range p {
		pValues[i] = float32(x)
	}
	mask := s.at(func(i int, _ float64) float64 {
		switch {
		case math.IsNaN(p[i]):
			return math.NaN()
		case !significant[i]:
			return 0
		case s.crps[i] < s.raw[i]:
			return 1
		}
		return 2
	})
	return append(all,
		of(product.ScoreField{Score: "crps_" + raw, LongName: "plain CRPS of " + raw, Method: "mean", Values: s.at(func(p int, n float64) float64 { return s.raw[p] / n })}),
		of(product.ScoreField{Score: "crpss", LongName: "skill score in CRPS of " + system + " relative to " + raw, Unit: "1", Comment: "1 - CRPS / CRPS of " + raw, Values: s.at(func(p int, _ float64) float64 { return 1 - s.crps[p]/s.raw[p] })}),
		of(product.ScoreField{Score: "p_value", LongName: "p value of equal CRPS of " + system + " and " + raw, Unit: "1", Comment: "Diebold-Mariano test of each point, with the measured memory from date to date", Values: pValues}),
		of(product.ScoreField{Score: "significant", LongName: "field significance of the difference in CRPS of " + system + " and " + raw, Unit: "1", Flags: []string{"not_significant", "better", "worse"},
			Comment: fmt.Sprintf("Benjamini-Hochberg, false discovery rate %g: p values up to %.3g", fieldFalseDiscoveries, limit), Values: mask}))
}

// writeFields writes the score fields of all targets.
//
// Errors: exit 65 if no target has a distribution or members; those of the encoder.
func (v *Verification) writeFields(ctx context.Context, path string) error {
	first, last := v.inits[0], v.inits[len(v.inits)-1]
	file := &product.ScoreFields{Grid: v.Grid, First: first, Last: last, Metadata: product.Metadata{Title: "Scores by place and lead", Source: "ensemble verify",
		References: "docs/verification.md", Command: v.Options.Command, Version: version.String(), Created: v.started}}
	for _, t := range v.Targets {
		if !t.hasDistribution() {
			continue
		}
		system := scoring.SystemNetwork
		t.points.factor = 1
		if m := t.scoring.Calibrated; !t.scoring.Mean {
			system, t.points.factor = scoring.SystemMembers, float64(m+1)/float64(m)
		}
		file.Fields = append(file.Fields, t.points.fields(t.target(), system, scoring.SystemRaw(t.scoring.Full))...)
	}
	if len(file.Fields) == 0 {
		return &exit.Error{Code: exit.BadData, What: "no score fields", At: path, Why: "the products hold only the spread of the full ensemble", Fix: "give products with mean and spread or with members, or leave out --fields"}
	}
	return product.WriteScoreFields(ctx, v.pool, path, file, product.Options{})
}

// hasDistribution reports whether the products of the target have a distribution or members, and not only a spread.
func (t *VerifiedTarget) hasDistribution() bool { return t.scoring.Mean || t.scoring.Calibrated > 0 }

// sumPoints adds the contributions of a batch of initialisations to the score fields.
func (v *Verification) sumPoints(batch [][]pointScores) {
	for i, dates := range batch {
		for _, d := range dates {
			v.Targets[i].points.add(d)
		}
	}
}

// contributions are what a batch of initialisations contributes to the scores, and to the score fields.
//
// Shape: [target][initialisation].
type contributions struct {
	Sums   [][]scoring.DateSums
	Points [][]pointScores // nil without score fields
}
