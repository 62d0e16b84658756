package scoring

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Selection selects scores in addition to the default, as on the command line. The zero value is the default.
type Selection struct {
	Scores     []string // IDs; "default" and "all" expand to several
	Thresholds []string // thresholds of events: VARIABLE=VALUE[,VALUE…], in the variable's unit
	Regions    []string // names of score.Boxes, or NAME=SOUTH:NORTH:WEST:EAST in degrees
	Seasons    bool     // also score each season
	Weights    string   // weights of points in means: WeightsByArea (also if empty) or NoWeights
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
	if c.Weights != "" && c.Weights != WeightsByArea && c.Weights != NoWeights {
		return bad("--weights "+c.Weights, fmt.Errorf("unknown weights %q", c.Weights), "give "+WeightsByArea+" or "+NoWeights)
	}
	for _, text := range c.Thresholds {
		if _, _, err := parseThresholds(text); err != nil {
			return bad("--above "+text, err, "give VARIABLE=VALUE,VALUE, as in 2t=273.15,303.15")
		}
	}
	for _, text := range c.Regions {
		if _, err := score.ParseBox(text); err != nil {
			return bad("--region "+text, err, "give a region's name, or NAME=SOUTH:NORTH:WEST:EAST in degrees")
		}
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

// parseThresholds parses VARIABLE=VALUE[,VALUE…].
func parseThresholds(text string) (variable string, values []float64, err error) {
	variable, list, ok := strings.Cut(text, "=")
	if !ok || variable == "" || list == "" {
		return "", nil, fmt.Errorf("%q lacks a variable or a value", text)
	}
	for part := range strings.SplitSeq(list, ",") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || v != v {
			return "", nil, fmt.Errorf("%q is not a number", part)
		}
		values = append(values, v)
	}
	return variable, values, nil
}

// options returns the score options of one target on its grid.
//
// Errors: exit 64 for a region without points.
func (c Selection) options(variable string, g *ensemble.Grid) (score.Options, error) {
	o := score.Options{Scores: c.IDs(), Seasons: c.Seasons}
	for _, text := range c.Thresholds {
		name, values, err := parseThresholds(text)
		if err != nil {
			return o, err
		}
		if name == variable {
			o.Thresholds = append(o.Thresholds, values...)
		}
	}
	slices.Sort(o.Thresholds)
	o.Thresholds = slices.Compact(o.Thresholds)
	for _, text := range c.Regions {
		box, err := score.ParseBox(text)
		if err != nil {
			return o, err
		}
		r, err := box.Region(g)
		if err != nil {
			return o, &exit.Error{Code: exit.Usage, What: "a region is empty", At: "--region " + text, Why: strings.TrimPrefix(err.Error(), "score: "),
				Fix: "remove it, or give one that lies on the grid", Err: err}
		}
		o.Regions = append(o.Regions, r)
	}
	return o, nil
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
