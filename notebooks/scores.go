package notebooks

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Scores are what a verification found: systems side by side, with intervals from
// resampled dates.
type Scores struct {
	result *score.Result
	err    error
}

// Err says why there are no scores.
func (s *Scores) Err() error { return s.err }

// Result is all that was found, as scores.json has it.
func (s *Scores) Result() (*score.Result, error) { return s.result, s.err }

// Select leaves the scores of some systems: "network", "raw5", "emos".
//
// Errors, kept in the scores: 64 for a system that was not scored.
func (s *Scores) Select(systems ...string) *Scores {
	if s.err != nil {
		return s
	}
	var known []string
	for _, v := range s.result.Scores {
		if !slices.Contains(known, v.System) {
			known = append(known, v.System)
		}
	}
	for _, name := range systems {
		if !slices.Contains(known, name) {
			return &Scores{err: &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there is no system %q", name), Why: "scored are " + strings.Join(known, ", "), Fix: "name one of these"}}
		}
	}
	r := *s.result
	others := func(system string) bool { return !slices.Contains(systems, system) }
	r.Scores = slices.DeleteFunc(slices.Clone(r.Scores), func(v score.Value) bool { return others(v.System) })
	r.Comparisons = slices.DeleteFunc(slices.Clone(r.Comparisons), func(c score.Comparison) bool { return others(c.System) })
	r.Ranks = slices.DeleteFunc(slices.Clone(r.Ranks), func(h score.RankHistogram) bool { return others(h.System) })
	r.Diagrams = slices.DeleteFunc(slices.Clone(r.Diagrams), func(d score.Diagram) bool { return others(d.System) })
	r.Calibration = slices.DeleteFunc(slices.Clone(r.Calibration), func(c score.Calibration) bool { return others(c.System) })
	return &Scores{result: &r}
}

// Show adds a table for each variable, level and lead to the cell: of the scores with
// these ids, or of the Main ones. `ensemble scores` lists ids.
func (s *Scores) Show(ids ...string) {
	exitOnError(s.err)
	if len(ids) == 0 {
		ids = MainScores
	}
	exitOnError(showSections(report.ScoreTables(s.result, ids...)))
}

// MainScores are the scores that are shown unless others are named.
var MainScores = []string{score.CRPSGauss.ID, score.CRPSFair.ID, score.RMSE.ID, score.Bias.ID, score.SpreadSkill.ID, score.Coverage90.ID}

// ShowSkillScores adds what systems gain over others to the cell, with paired intervals: of
// the scores with these ids, or of all that were compared.
func (s *Scores) ShowSkillScores(ids ...string) {
	exitOnError(s.err)
	exitOnError(showSections(report.SkillTables(s.result, ids...)))
}

// SkillScores draws what systems gain over others, with paired intervals about a line at zero.
func (s *Scores) SkillScores(ids ...string) *Pictures { return s.draw(report.SkillPictures, ids) }

// Histograms draws how often each rank among the members was that of the analysis:
// level for calibrated members.
func (s *Scores) Histograms() *Pictures {
	return s.draw(func(r *score.Result, _ ...string) []report.Picture { return report.Histograms(r) }, nil)
}

// Diagrams draws calibration and value, as far as they were scored: spread and skill,
// PIT histograms, and of events reliability, ROC and economic value. With ids, those of
// these scores.
func (s *Scores) Diagrams(ids ...string) *Pictures { return s.draw(report.Diagrams, ids) }

func (s *Scores) draw(by func(*score.Result, ...string) []report.Picture, ids []string) *Pictures {
	if s.err != nil {
		return &Pictures{err: s.err}
	}
	p := &Pictures{}
	for _, one := range by(s.result, ids...) {
		p.All = append(p.All, pictureOf(one))
	}
	return p
}

// Verify predicts all starts of a dataset and judges them by its analyses, or finds what
// was found before. Starts that the run was trained on flatter it: Since leaves them
// out. Takes Above, Metrics and Since.
//
// Errors: 64 for options, 65 and 66 for the files, 66 too if no start is left.
func (r *Run) Verify(d *Dataset, opts ...Option) (*Scores, error) {
	o, err := applyOptions("Verify", opts, "Above", "Metrics", "Since")
	if err != nil {
		return nil, err
	}
	var files []string
	for _, s := range d.summary.Inits {
		if o.since == nil || !s.Init.Before(o.since.Time) {
			files = append(files, s.Files...)
		}
	}
	if files == nil {
		return nil, &exit.Error{Code: exit.NotYet, What: "no start is left to verify", Fix: "name an earlier date with Since"}
	}
	slices.Sort(files)
	all, err := r.predict(Init{Files: slices.Compact(files), dataset: d}, options{})
	if err != nil {
		return nil, err
	}
	if o.since != nil {
		all.Outputs = slices.DeleteFunc(all.Outputs, func(f string) bool { return filepath.Base(filepath.Dir(f)) < o.since.Format("2006010215") })
	}
	s := r.verify([]*Prediction{all}, d, o)
	return s, s.err
}

// MustVerify is Verify, and ends the cell on an error.
func (r *Run) MustVerify(d *Dataset, opts ...Option) *Scores { return must(r.Verify(d, opts...)) }

// verify verifies predictions, or finds the scores that were kept.
func (r *Run) verify(all []*Prediction, d *Dataset, o options) *Scores {
	vo := verify.Options{Analysis: d.analyses, RunDir: r.Dir, Selection: o.scoreSelection}
	if d.analyses == nil {
		vo.Analysis = d.files
	}
	for _, p := range all {
		vo.Forecast, vo.Members = append(vo.Forecast, p.Outputs...), append(vo.Members, p.Init.Files...)
	}
	sums, err := checksums(slices.Concat(vo.Forecast, vo.Analysis, vo.Members), d.cacheDir())
	if err != nil {
		return &Scores{err: err}
	}
	vo.Out = r.Dir + "-scores-" + contentKey(append(sums, version.String(), fmt.Sprint(o.scoreSelection))...)
	if s, err := trained.ReadScores(vo.Out); exit.CodeOf(err) != exit.NotYet {
		return &Scores{result: s, err: err}
	}
	v, err := runJob(func(ctx context.Context, j job) (*verify.Result, error) {
		v, err := verify.Run(ctx, vo)
		if err == nil {
			for _, w := range v.Warnings {
				j.warn(w)
			}
		}
		return v, err
	})
	if err != nil {
		return &Scores{err: err}
	}
	return &Scores{result: v.Scores}
}
