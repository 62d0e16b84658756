package notebooks

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Scores are the results of a verification: the scores of several systems, with bootstrap
// intervals over the dates.
type Scores struct {
	result *score.Result
	dir    string   // with dates.parquet
	only   []string // systems of Select; nil: all
	err    error
}

// Err returns the error of the verification, or nil.
func (s *Scores) Err() error { return s.err }

func (s *Scores) setErr(err error) { s.err = err }

// Result returns all results, as scores.json contains them.
func (s *Scores) Result() (*score.Result, error) { return s.result, s.err }

// Select returns the scores of some systems, for example "network", "raw5" and "emos".
//
// Errors, stored in the scores: 64 for a system without scores.
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
			return &Scores{err: &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown system %q", name), Why: "the scores are of " + strings.Join(known, ", "), Fix: "choose one of these"}}
		}
	}
	r := *s.result
	others := func(system string) bool { return !slices.Contains(systems, system) }
	r.Scores = slices.DeleteFunc(slices.Clone(r.Scores), func(v score.Value) bool { return others(v.System) })
	r.Comparisons = slices.DeleteFunc(slices.Clone(r.Comparisons), func(c score.Comparison) bool { return others(c.System) })
	r.Ranks = slices.DeleteFunc(slices.Clone(r.Ranks), func(h score.RankHistogram) bool { return others(h.System) })
	r.Diagrams = slices.DeleteFunc(slices.Clone(r.Diagrams), func(d score.Diagram) bool { return others(d.System) })
	r.Calibration = slices.DeleteFunc(slices.Clone(r.Calibration), func(c score.Calibration) bool { return others(c.System) })
	return &Scores{result: &r, dir: s.dir, only: systems}
}

// Show adds a table for each variable, level and lead time to the cell. The table contains the
// scores with these identifiers, or MainScores. `ensemble scores` lists the identifiers.
func (s *Scores) Show(ids ...string) {
	exitOnError(s.err)
	if len(ids) == 0 {
		ids = MainScores
	}
	exitOnError(showSections(report.ScoreTables(s.result, ids...)))
}

// MainScores are the scores in the tables of Show without arguments.
var MainScores = []string{score.CRPSGauss.ID, score.CRPSFair.ID, score.RMSE.ID, score.Bias.ID, score.SpreadSkill.ID, score.Coverage90.ID}

// ShowSkillScores adds tables of the skill scores between systems to the cell, with paired
// intervals. The tables contain the scores with these identifiers, or all compared scores.
func (s *Scores) ShowSkillScores(ids ...string) {
	exitOnError(s.err)
	exitOnError(showSections(report.SkillTables(s.result, ids...)))
}

// SkillScores draws the skill scores between systems, with paired intervals and a zero line.
func (s *Scores) SkillScores(ids ...string) *Pictures { return s.draw(report.SkillPictures, ids) }

// Histograms draws rank histograms: how often the analysis has each rank among the members. The
// histogram of a calibrated ensemble is flat.
func (s *Scores) Histograms() *Pictures {
	return s.draw(func(r *score.Result, _ ...string) []report.Picture { return report.Histograms(r) }, nil)
}

// Diagrams draws the available diagrams: spread and skill, PIT histograms, and for events
// reliability, ROC and economic value. With ids it draws the diagrams of these scores.
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

// Verify computes the predictions for all initialisation times of a dataset and verifies them with
// its analyses. Existing results are reused. Scores of the training period are too good; use Since
// and Until to exclude it. Accepts Event, Metrics, Since and Until.
//
// Errors: 64 for options, 65 and 66 for the files, 66 if no initialisation time is left.
func (r *Run) Verify(d *Dataset, opts ...Option) (*Scores, error) {
	o, err := applyOptions("Verify", opts, "Event", "Metrics", "Since", "Until")
	err = cmp.Or(r.err, d.err, err)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, s := range d.summary.Inits {
		if o.includes(s.Init.Time) {
			files = append(files, s.Files...)
		}
	}
	if files == nil {
		return nil, &exit.Error{Code: exit.NotYet, What: "no initialisation time to verify", Why: fmt.Sprintf("the dataset has %s to %s", d.summary.Inits[0].Init, d.summary.Inits[len(d.summary.Inits)-1].Init), Fix: "use other dates in Since and Until"}
	}
	slices.Sort(files)
	all, err := r.predict(Init{Files: slices.Compact(files), dataset: d}, options{})
	if err != nil {
		return nil, err
	}
	// Files have several initialisation times.
	all.Outputs = slices.DeleteFunc(all.Outputs, func(f string) bool {
		t, err := time.Parse("2006010215", filepath.Base(filepath.Dir(f)))
		return err == nil && !o.includes(t)
	})
	s := r.verify([]*Prediction{all}, d, o)
	return s, s.err
}

// MustVerify calls Verify and ends the cell on an error.
func (r *Run) MustVerify(d *Dataset, opts ...Option) *Scores { return must(r.Verify(d, opts...)) }

// verify verifies predictions, or reads the existing scores.
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
		return &Scores{result: s, dir: vo.Out, err: err}
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
	return &Scores{result: v.Scores, dir: vo.Out}
}
