package scoring

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Selection selects scores in addition to the default, as on the command line. The zero value is the default.
type Selection struct {
	Scores  []string // IDs; "default" and "all" expand to several
	Events  []string // above a threshold, as ensemble.ParseVariableEvent reads them; without a unit in SI units
	Regions []string // names of score.Boxes, or NAME=SOUTH:NORTH:WEST:EAST in degrees
	Seasons bool     // also score each season
	Weights string   // weights of points in means: WeightsByArea (also if empty) or NoWeights
	Radius  float64  // of discs around points, in m, for scores of fractions; 0: none
}

// Weights of points in spatial means.
const (
	WeightsByArea = "area"
	NoWeights     = "none"
)

// weights returns the weights of a grid's points, and their name in results.
func (c Selection) weights(g *ensemble.Grid) ([]float64, string) {
	if c.Weights == NoWeights {
		w := make([]float64, g.Size())
		for i := range w {
			w[i] = 1
		}
		return w, EqualWeights
	}
	return g.Weights(), weightsName(g)
}

// Names that expand to several scores.
const (
	allScores     = "all"
	defaultScores = "default"
)

// Check checks the syntax before files are read.
//
// Errors: exit 64.
func (c Selection) Check() error {
	bad := func(at string, err error, fix string) error {
		return &exit.Error{Code: exit.Usage, What: "invalid selection of scores", At: at, Why: strings.TrimPrefix(err.Error(), "score: "), Fix: fix, Err: err}
	}
	for _, id := range c.IDs() {
		if score.ByID(id) == nil {
			return bad("--scores "+id, fmt.Errorf("unknown score %q", id), "valid are default, all, "+strings.Join(score.IDs(), ", "))
		}
	}
	if id := slices.IndexFunc(c.Scores, func(id string) bool {
		s := score.ByID(id)
		return s != nil && s.Needs&score.Events != 0
	}); id >= 0 && len(c.Events) == 0 {
		return bad("--scores "+c.Scores[id], fmt.Errorf("%s needs an event", c.Scores[id]), "add --event EVENT, as in --event \"2t>273.15\"")
	}
	needsRadius := func(id string) bool { s := score.ByID(id); return s != nil && s.Needs&score.Fractions != 0 }
	if id := slices.IndexFunc(c.Scores, needsRadius); id >= 0 && c.Radius == 0 {
		return bad("--scores "+c.Scores[id], fmt.Errorf("%s needs the radius of a neighbourhood", c.Scores[id]), "add --radius DISTANCE, as in --radius 50km")
	}
	if c.Radius > 0 && c.Scores != nil && !slices.ContainsFunc(c.IDs(), needsRadius) {
		return bad("--radius", errors.New("no selected score has a neighbourhood"), "add --scores default,"+score.FSS.ID+", or remove it")
	}
	if c.Radius > 0 && len(c.Events) == 0 {
		return bad("--radius", fmt.Errorf("%s needs an event", score.FSS.ID), "add --event EVENT, as in --event \"2t>273.15\"")
	}
	if c.Weights != "" && c.Weights != WeightsByArea && c.Weights != NoWeights {
		return bad("--weights "+c.Weights, fmt.Errorf("unknown weights %q", c.Weights), "give "+WeightsByArea+" or "+NoWeights)
	}
	for _, text := range c.Events {
		if _, _, err := exceedance(text); err != nil {
			fix := "write an event above a threshold, as in 2t>273.15, t850>280 or \"2t>0 degC\""
			if e := (*exit.Error)(nil); errors.As(err, &e) { // of the unit
				err, fix = errors.New(e.What), e.Fix
			}
			return bad("--event "+text, err, fix)
		}
	}
	if _, err := score.ParseBoxes(c.Regions); err != nil {
		return bad("--region "+strings.Join(c.Regions, ", "), err, "give names of regions, or NAME=SOUTH:NORTH:WEST:EAST in degrees, each with a name of its own")
	}
	return nil
}

// IDs returns the selected scores; nil for the default.
func (c Selection) IDs() (out []string) {
	for _, id := range c.Scores {
		switch id {
		case allScores:
			out = append(out, score.IDs()...)
		case defaultScores:
			out = append(out, score.Default...)
		default:
			out = append(out, id)
		}
	}
	return out
}

// CheckEvents checks that each event is of a verified target.
//
// Errors: exit 64.
func (c Selection) CheckEvents(verified []score.Target) error {
	for _, text := range c.Events {
		at, _, err := exceedance(text)
		if err != nil || slices.ContainsFunc(verified, func(t score.Target) bool { return at.Matches(t.Variable, t.Level) }) {
			continue
		}
		var names []string
		for _, t := range verified {
			known, _ := ensemble.VariableNamed(t.Variable)
			name := ensemble.VariableAt{Variable: t.Variable, Level: t.Level, HasLevel: known.OnManyLevels()}.String()
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return &exit.Error{Code: exit.Usage, What: "event " + text + " selects nothing", At: "--event " + text, Why: "the products have no mean and spread of " + at.String(),
			Fix: "give events of " + strings.Join(names, " or ")}
	}
	return nil
}

// Unscored names the selected scores that none of the targets has for any system, and thresholds without a
// score.
func (c Selection) Unscored(all []*Scoring) (warnings []string) {
	scored := func(id string) bool {
		return slices.ContainsFunc(all, func(s *Scoring) bool {
			for k, a := range []*score.Accumulator{s.distributions, s.spreads} {
				if a != nil && slices.ContainsFunc(s.Systems[k], func(y score.System) bool { return a.HasScore(y.Name, id) }) {
					return true
				}
			}
			return false
		})
	}
	for _, id := range c.Scores {
		if s := score.ByID(id); s != nil && !scored(id) {
			warnings = append(warnings, fmt.Sprintf("--scores %s: not computed, as no system has what it needs: %s", id, s.Inputs()))
		}
	}
	if len(c.Events) > 0 && !slices.ContainsFunc(score.Table, func(s *score.Score) bool { return s.Needs&score.Events != 0 && scored(s.ID) }) {
		warnings = append(warnings, "--event selects nothing: no selected score is of events; add --scores default,brier")
	}
	return warnings
}

// ThresholdWarnings names published thresholds that are not scored although others are, and thresholds that are
// scored by the distribution because their probability is not among the products.
func (s *Scoring) ThresholdWarnings() (warnings []string) {
	if s.distributions == nil || len(s.Published.Thresholds) == 0 || !slices.ContainsFunc(score.Table, func(x *score.Score) bool {
		return x.Needs&score.Events != 0 && s.distributions.HasScore(SystemNetwork, x.ID)
	}) {
		return nil
	}
	list := func(x []float64) string {
		var text []string
		for _, v := range x {
			text = append(text, strconv.FormatFloat(v, 'g', -1, 64))
		}
		return strings.Join(text, ",")
	}
	both, rest := matchingAll(s.options.Thresholds, s.Published.Thresholds)
	if len(rest) > 0 {
		var add []string
		for _, v := range rest {
			add = append(add, fmt.Sprintf(`--event "%s>%g"`, s.Target.Variable, v))
		}
		warnings = append(warnings, fmt.Sprintf("published probabilities of %s are not scored: add %s", s.Target.Variable, strings.Join(add, " ")))
	}
	if other := slices.DeleteFunc(slices.Clone(s.options.Thresholds), func(x float64) bool { return slices.Contains(both, x) }); len(other) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s above %s: scores of the network are computed from its mean and spread or parameters, as no such probability is published", s.Target.Variable, list(other)))
	}
	return warnings
}

// exceedance parses an event above a threshold, in SI units.
//
// Errors: those of ensemble.ParseVariableEvent and task.EventSI, and another event.
func exceedance(text string) (at ensemble.VariableAt, threshold float64, err error) {
	q, err := ensemble.ParseVariableEvent(text)
	if err != nil {
		return at, 0, err
	}
	if q.Event.Relation != ensemble.Above {
		return at, 0, fmt.Errorf("%s is not above a threshold; the opposite event has the same Brier score", q)
	}
	e, err := task.EventSI(q)
	return q.VariableAt, e.Lower, err
}

// options returns the score options of one target on its grid.
//
// Errors: exit 64 for a region without points.
func (c Selection) options(t score.Target, g *ensemble.Grid) (score.Options, error) {
	o := score.Options{Scores: c.IDs(), Seasons: c.Seasons}
	for _, text := range c.Events {
		at, threshold, err := exceedance(text)
		if err != nil {
			return o, err
		}
		if at.Matches(t.Variable, t.Level) {
			o.Thresholds = append(o.Thresholds, threshold)
		}
	}
	slices.Sort(o.Thresholds)
	o.Thresholds = slices.Compact(o.Thresholds)
	boxes, err := score.ParseBoxes(c.Regions)
	if err != nil {
		return o, err
	}
	for _, box := range boxes {
		r, err := box.Region(g)
		if err != nil {
			return o, &exit.Error{Code: exit.Usage, What: "a region is empty", At: "region " + box.Name, Why: strings.TrimPrefix(err.Error(), "score: "),
				Fix: "remove it, or give one that lies on the grid", Err: err}
		}
		o.Regions = append(o.Regions, r)
	}
	return o, nil
}

// withPublished adds the published thresholds and levels of quantiles, and their scores, to the default
// selection. With selected scores thresholds are those of the selection, and levels the published ones.
func (j *TargetOptions) withPublished(o score.Options) score.Options {
	o.Levels = j.Published.Levels
	if o.Scores != nil {
		return o
	}
	if len(o.Thresholds) == 0 {
		o.Thresholds = j.Published.Thresholds
	}
	if thresholds, _ := matchingAll(o.Thresholds, j.Published.Thresholds); len(thresholds) > 0 {
		o.Scores = append(o.Scores, score.Brier.ID)
	}
	if len(o.Levels) > 0 {
		o.Scores = append(o.Scores, score.QuantileScore.ID, score.QuantileFrequency.ID)
	}
	return o
}

// publishedOptions returns the thresholds and levels of the options for which the products have a probability
// or a quantile.
func (s *Scoring) publishedOptions() (thresholds, levels []float64) {
	thresholds, _ = matchingAll(s.options.Thresholds, s.Published.Thresholds)
	return thresholds, s.options.Levels
}

// matchingAll returns the numbers that are also among others, and those of the others that are not, up to the
// rounding of a conversion of units.
func matchingAll(list, others []float64) (both, rest []float64) {
	for _, x := range others {
		if y, ok := matching(list, x); ok {
			both = append(both, y)
		} else {
			rest = append(rest, x)
		}
	}
	return both, rest
}

// matching returns the number of a list that equals x up to the rounding of a conversion of units.
func matching(list []float64, x float64) (float64, bool) {
	for _, y := range list {
		if math.Abs(x-y) <= 1e-6*max(math.Abs(x), math.Abs(y)) {
			return y, true
		}
	}
	return 0, false
}

// Tables that verification writes in addition to scores.json and scores.parquet.
const (
	ScoresCSV        = "scores.csv"
	ComparisonsTable = "comparisons.parquet"
	DiagramsTable    = "diagrams.parquet"
)

// DiagramValue is one value of a diagram, a row of diagrams.parquet.
type DiagramValue struct {
	score.DiagramKey
	Members int          `json:"members"`
	N       int          `json:"n"`   // cases
	Row     int          `json:"row"` // row of the diagram's table
	Column  string       `json:"column"`
	Value   score.Number `json:"value"`
	CILow   score.Number `json:"ci_low"` // confidence interval, if the column has one
	CIHigh  score.Number `json:"ci_high"`
}

// WriteTables writes results as tables for other programs and returns their paths.
//
// Errors: exit 73 and 74.
func WriteTables(dir string, r *score.Result) (paths []string, err error) {
	var values []DiagramValue
	missing := score.Missing()
	for _, d := range r.Diagrams {
		for k, row := range d.Rows {
			for i, v := range row {
				x := DiagramValue{d.DiagramKey, d.Members, d.N, k, d.Columns[i], v, missing, missing}
				if d.Columns[i] == d.IntervalColumn {
					x.CILow, x.CIHigh = d.Low[k], d.High[k]
				}
				values = append(values, x)
			}
		}
	}
	file := func(name string) string {
		paths = append(paths, filepath.Join(dir, name))
		return paths[len(paths)-1]
	}
	if err := table.WriteCSV(file(ScoresCSV), r.Scores); err != nil {
		return nil, err
	}
	if err := table.Write(file(ComparisonsTable), r.Comparisons); err != nil {
		return nil, err
	}
	return paths, table.Write(file(DiagramsTable), values)
}
