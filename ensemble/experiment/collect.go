package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// CollectedScore is a row of scores.parquet: one score of one system in one run.
type CollectedScore struct {
	Experiment string       `json:"experiment"` // "" for a run without experiment
	Run        string       `json:"run"`        // path relative to the experiment
	Variant    string       `json:"variant"`
	Seed       int          `json:"seed"`
	Program    string       `json:"program"`
	System     string       `json:"system"`
	Score      string       `json:"score"`
	Variable   string       `json:"variable"`
	Level      string       `json:"level"`
	Lead       string       `json:"lead"`
	LeadH      float64      `json:"lead_h"`
	Region     string       `json:"region"`
	Season     string       `json:"season"`
	Threshold  score.Number `json:"threshold"`
	Value      score.Number `json:"value"`
	CILow      score.Number `json:"ci_low"`
	CIHigh     score.Number `json:"ci_high"`
	Unit       string       `json:"unit"`
	Members    int          `json:"members"`
	N          int          `json:"n"`
	Weights    string       `json:"weights"`
}

// CollectedRun is a run with scores.
type CollectedRun struct {
	Dir        string          `json:"dir"`
	Experiment string          `json:"experiment"`
	Run        string          `json:"run"`
	Variant    string          `json:"variant"`
	Seed       int             `json:"seed"`
	Program    string          `json:"program"`
	Status     string          `json:"status"` // status of the record of its experiment; "" without a record
	Seconds    score.Number    `json:"seconds"`
	ToQuality  score.Number    `json:"seconds_to_quality"`
	Machine    *record.Machine `json:"-"`
	Loss       map[int]float64 `json:"-"` // validation loss by epoch, of the first network, without its pre-training
	Scores     *score.Result   `json:"-"`
	number     int             // number in the tables, from 1
}

// CollectedTime is a time-to-quality result in a record.
type CollectedTime struct {
	Dir        string `json:"dir"`
	Experiment string `json:"experiment"`
	Program    string `json:"program"`
	CPU        string `json:"cpu"`
	Threads    int    `json:"threads"`
	record.TimeToQuality
}

// Label is the name of the run, with its experiment.
func (r *CollectedRun) Label() string { return strings.TrimPrefix(r.Experiment+"/"+r.Run, "/") }

// Collection is all runs found in some directories.
type Collection struct {
	Runs  []*CollectedRun `json:"runs"`
	Times []CollectedTime `json:"times_to_quality"`
	// Differences lists, by run, how machines differ from that of the first run with a record.
	Differences map[string][]record.Difference `json:"differences"`
	Outputs     []string                       `json:"-"` // written by Save
}

// Collect finds all runs with scores and all times to quality in directories, with their records and
// manifests. A directory may be a run, an experiment, or contain several.
//
// Errors: exit 66 if a directory has none, 65 for unreadable files.
func Collect(ctx context.Context, roots []string) (*Collection, error) {
	c := &Collection{Differences: map[string][]record.Difference{}}
	seen := map[string]bool{}
	for _, root := range roots {
		if name := filepath.Base(root); name == record.File || name == record.QualityFile {
			root = filepath.Dir(root)
		}
		found := false
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return exit.ReadError(path, err)
			}
			ofTimes := e.Name() == record.File || e.Name() == record.QualityFile
			if e.IsDir() || e.Name() != trained.ScoresFile && !ofTimes {
				return ctx.Err()
			}
			found = found || e.Name() != record.File // a record without its runs is not enough
			if path, err = filesystem.Absolute("", path); err != nil || seen[path] {
				return err
			}
			seen[path] = true
			if ofTimes {
				return c.collectTimes(path)
			}
			r, err := collectRun(filepath.Dir(path))
			if err == nil {
				c.Runs = append(c.Runs, r)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, &exit.Error{Code: exit.NotYet, What: "no run with scores in " + root, At: root, Why: "no subdirectory has " + trained.ScoresFile, Fix: "give run directories, results of experiments, or a directory that contains them"}
		}
	}
	c.disambiguate()
	var first *CollectedRun
	for i, r := range c.Runs {
		r.number = i + 1
		switch {
		case r.Machine == nil:
		case first == nil:
			first = r
		default:
			if d := first.Machine.Differences(r.Machine); d != nil {
				c.Differences[r.Label()] = d
			}
		}
	}
	return c, nil
}

// disambiguate renames runs with equal labels, such as an experiment and its reproduction, to their
// paths relative to the common parent directory.
func (c *Collection) disambiguate() {
	by := map[string][]*CollectedRun{}
	for _, r := range c.Runs {
		by[r.Label()] = append(by[r.Label()], r)
	}
	for _, same := range by {
		if len(same) == 1 {
			continue
		}
		above := filepath.Dir(same[0].Dir)
		for _, r := range same {
			for above != filepath.Dir(above) && !strings.HasPrefix(r.Dir, above+string(filepath.Separator)) {
				above = filepath.Dir(above)
			}
		}
		for _, r := range same {
			if below, err := filepath.Rel(above, r.Dir); err == nil {
				r.Run = filepath.ToSlash(below)
			}
		}
	}
}

// collectTimes reads the times to quality of a record.
func (c *Collection) collectTimes(path string) error {
	r, err := record.Read(path)
	if err != nil {
		return err
	}
	for _, q := range r.Quality {
		c.Times = append(c.Times, CollectedTime{filepath.Dir(path), r.Experiment, r.Machine.Program, r.Machine.CPU, r.Machine.Threads, q})
	}
	return nil
}

// collectRun reads one run directory.
func collectRun(dir string) (*CollectedRun, error) {
	r := &CollectedRun{Dir: dir, Run: filepath.Base(dir), Seed: -1, Seconds: score.Missing(), ToQuality: score.Missing()}
	var err error
	if r.Scores, err = trained.ReadScores(dir); err != nil {
		return nil, err
	}
	if text, err := filesystem.ReadFile(filepath.Join(dir, "environment.json")); err == nil {
		var e rundir.Environment
		if json.Unmarshal(text, &e) == nil {
			r.Seed, r.Program = int(e.Seed), e.Version
		}
	}
	if m, err := rundir.ReadManifest(dir); err == nil {
		r.Seconds = score.Number(m.End.Sub(m.Start).Seconds())
	}
	if err := r.findExperiment(dir); err != nil {
		return nil, err
	}
	events, err := rundir.ReadEvents(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.Loss = map[int]float64{}
	first := -1.0 // number of the first network; before it, if any, is its pre-training
	for _, e := range events {
		v, ok := e.Number("validation_loss")
		if stage, _ := e.Text("stage"); !ok || e.Kind != "epoch" || stage == setup.PretrainingName {
			continue
		}
		network, _ := e.Number("network")
		if first < 0 {
			first = network
		}
		if network == first {
			r.Loss[e.Epoch] = v
		}
	}
	return r, nil
}

// findExperiment finds the experiment of a run: by record.json or experiment.json in one of its
// three parent directories.
func (r *CollectedRun) findExperiment(dir string) error {
	at := dir
	for range 3 {
		at = filepath.Dir(at)
		below, err := filepath.Rel(at, dir)
		if err != nil {
			return err
		}
		own, err := record.Read(filepath.Join(at, record.File))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			r.Experiment, r.Run, r.Status, r.Machine = own.Experiment, filepath.ToSlash(below), own.Status, &own.Machine
			r.Variant, _, _ = strings.Cut(r.Run, "/")
			r.ToQuality = own.SecondsToQuality(r.Variant, r.Seed)
			return nil
		}
		if _, err := filesystem.Stat(filepath.Join(at, experimentFile)); err == nil {
			r.Experiment, r.Run = filepath.Base(at), filepath.ToSlash(below)
			r.Variant, _, _ = strings.Cut(r.Run, "/")
			return nil
		}
	}
	return nil
}

// Rows lists all scores of all runs.
func (c *Collection) Rows() (out []CollectedScore) {
	for _, r := range c.Runs {
		for _, v := range r.Scores.Scores {
			out = append(out, CollectedScore{Experiment: r.Experiment, Run: r.Run, Variant: r.Variant, Seed: r.Seed, Program: r.Program,
				System: v.System, Score: v.ID, Variable: v.Variable, Level: v.Level, Lead: v.Lead, LeadH: v.LeadH, Region: v.Region, Season: v.Season, Threshold: v.Threshold,
				Value: v.Value, CILow: v.CILow, CIHigh: v.CIHigh, Unit: v.Unit, Members: v.Members, N: v.N, Weights: v.Weights})
		}
	}
	return out
}

// scoresTable is the file of all scores.
const scoresTable = "scores.parquet"

// Save writes the table of all scores and an HTML page with the comparison to a directory.
//
// Errors: exit 73 and 74.
func (c *Collection) Save(dir string) error {
	if err := filesystem.MkdirAll(dir, 0o777); err != nil {
		return exit.CreateError(dir, err)
	}
	path := filepath.Join(dir, scoresTable)
	if err := table.Write(path, c.Rows()); err != nil {
		return err
	}
	c.Outputs = []string{path, filepath.Join(dir, reports.PageFile)}
	return reports.WritePage(dir, c.page())
}

// comparedScore identifies a score of the network that is compared between runs.
type comparedScore struct{ score, variable, level, lead, unit string }

func (t comparedScore) String() string {
	return fmt.Sprintf("%s of %s at %s, lead %s", t.score, t.variable, t.level, t.lead)
}

// compared returns the scores of networks for the whole area and all seasons in the order of
// targets, and the value of each run.
func (c *Collection) compared() (order []comparedScore, of map[comparedScore]map[*CollectedRun]*score.Value) {
	of = map[comparedScore]map[*CollectedRun]*score.Value{}
	for _, r := range c.Runs {
		for i := range r.Scores.Scores {
			v := &r.Scores.Scores[i]
			if v.System != scoring.SystemNetwork || !score.IsOverall(v.Region, v.Season) || v.Threshold == v.Threshold {
				continue
			}
			t := comparedScore{v.ID, v.Variable, v.Level, v.Lead, v.Unit}
			if of[t] == nil {
				of[t] = map[*CollectedRun]*score.Value{}
				order = append(order, t)
			}
			of[t][r] = v
		}
	}
	slices.SortStableFunc(order, func(a, b comparedScore) int {
		return cmp.Or(cmp.Compare(a.variable, b.variable), cmp.Compare(a.level, b.level), cmp.Compare(a.lead, b.lead))
	})
	return order, of
}

// runTable is the table of runs.
func (c *Collection) runTable() answer.Section {
	s := answer.Section{Title: "Runs", Columns: slices.Concat(answer.TextColumns("run"), answer.NumberColumns("", "no.", "seed"), answer.TextColumns("record", "program"), answer.NumberColumns(fiveDigits, "seconds", "to quality, s"),
		answer.TextColumns("processor", "kernels"), answer.NumberColumns("", "threads"))}
	for _, r := range c.Runs {
		row := []any{r.Label(), r.number, r.Seed, cmp.Or(r.Status, "-"), cmp.Or(r.Program, "-"), r.Seconds, r.ToQuality, nil, nil, nil}
		if m := r.Machine; m != nil {
			row[7], row[8], row[9] = cmp.Or(m.CPU, "-"), cmp.Or(m.Kernels, "-"), m.Threads
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// timeTable is the table of times to quality.
func (c *Collection) timeTable() answer.Section {
	s := answer.Section{Title: "Time to quality", Columns: slices.Concat(answer.TextColumns("experiment", "variant"), answer.NumberColumns("", "loss"), answer.TextColumns("seconds to it, by seed"),
		answer.NumberColumns(fiveDigits, "result", "of processors"), answer.TextColumns("epochs, by seed"), answer.NumberColumns(fiveDigits, "result"), answer.TextColumns("program", "processor"), answer.NumberColumns("", "threads"))}
	for _, q := range c.Times {
		seconds, epochs := make([]string, len(q.Seconds)), make([]string, len(q.Epochs))
		for i, x := range q.Seconds {
			seconds[i] = "-"
			if x == x {
				seconds[i] = fmt.Sprintf(fiveDigits, x)
			}
		}
		for i, n := range q.Epochs {
			epochs[i] = strconv.Itoa(n)
		}
		s.Rows = append(s.Rows, []any{q.Experiment, q.Variant, q.Target, strings.Join(seconds, ", "), q.Result, q.ProcessorResult,
			strings.Join(epochs, ", "), q.EpochsResult, cmp.Or(q.Program, "-"), cmp.Or(q.CPU, "-"), q.Threads})
	}
	return s
}

// scoreTable is the table of network scores with a column for each run.
func (c *Collection) scoreTable() answer.Section {
	s := answer.Section{Title: "Scores by the numbers of the runs", Columns: answer.TextColumns("score", "unit")}
	for _, r := range c.Runs {
		s.Columns = append(s.Columns, answer.NumberColumn(strconv.Itoa(r.number), "", fiveDigits))
	}
	order, of := c.compared()
	for _, t := range order {
		row := []any{fmt.Sprintf("%s %s %s +%s", t.score, t.variable, t.level, t.lead), cmp.Or(t.unit, "1")}
		for _, r := range c.Runs {
			value := score.Missing()
			if v := of[t][r]; v != nil {
				value = v.Value
			}
			row = append(row, value)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// longTable is the table of network scores with confidence intervals, a row for each score and run.
func (c *Collection) longTable() answer.Section {
	s := answer.Section{Title: "Scores with intervals", Columns: slices.Concat(answer.TextColumns("run", "score", "variable", "level", "lead"), answer.NumberColumns(fiveDigits, "value", "low", "high"),
		answer.TextColumns("unit"), answer.NumberColumns("", "starts", "seed"))}
	order, of := c.compared()
	for _, r := range c.Runs {
		for _, t := range order {
			if v := of[t][r]; v != nil {
				s.Rows = append(s.Rows, []any{r.Label(), t.score, t.variable, t.level, t.lead, v.Value, v.CILow, v.CIHigh, cmp.Or(t.unit, "1"), v.N, r.Seed})
			}
		}
	}
	return s
}

// machineTable is the table of differences between machines.
func (c *Collection) machineTable() answer.Section {
	s := answer.Section{Title: "Differences from the machine of the first run", Columns: answer.TextColumns("run", "property", "value", "first run", "may change results")}
	for _, name := range slices.Sorted(maps.Keys(c.Differences)) {
		for _, x := range c.Differences[name] {
			may := "no"
			if x.Bits {
				may = "yes"
			}
			s.Rows = append(s.Rows, []any{name, x.What, orNone(x.B), orNone(x.A), may})
		}
	}
	return s
}

// Sections is the comparison as tables, and the files written by Save.
func (c *Collection) Sections() (all answer.Sections) {
	for _, s := range []answer.Section{c.runTable(), c.timeTable(), c.scoreTable(), c.machineTable()} {
		if s.Rows != nil {
			all = append(all, s)
		}
	}
	if c.Outputs != nil {
		all = append(all, answer.Section{Text: c.Outputs})
	}
	return all
}

// orNone is s, or "none".
func orNone(s string) string { return cmp.Or(s, "none") }

// maxChartLines is the largest number of curves in a chart.
const maxChartLines = 6

// page is the HTML page of the comparison.
func (c *Collection) page() *report.Page {
	experiments := map[string]bool{}
	for _, r := range c.Runs {
		experiments[r.Experiment] = true
	}
	long := c.longTable()
	p := &report.Page{Title: "Runs compared", ChartsTitle: "Charts", Status: []report.Fact{{Name: "runs", Text: strconv.Itoa(len(c.Runs))},
		{Name: "experiments", Text: strconv.Itoa(len(experiments))}, {Name: "scores of networks", Text: strconv.Itoa(len(long.Rows))}}}
	for _, s := range []answer.Section{c.runTable(), c.timeTable(), c.scoreTable(), long, c.machineTable()} {
		if s.Rows != nil {
			t := report.TableOf(s.Title, s)
			t.Sortable = true
			p.Tables = append(p.Tables, t)
		}
	}
	order, of := c.compared()
	p.Charts = append(c.lossCharts(), c.scoreCharts(order, of)...)
	return p
}

// lossCharts returns charts of the validation loss by epoch, one for each experiment, because losses
// of different settings are not comparable.
func (c *Collection) lossCharts() (out []report.Chart) {
	by := map[string]*report.Chart{}
	for _, r := range c.Runs {
		if len(r.Loss) < 2 {
			continue
		}
		chart := by[r.Experiment]
		if chart == nil {
			chart = &report.Chart{Title: strings.TrimSpace("Validation loss " + r.Experiment), X: "epoch", Y: "loss"}
			by[r.Experiment] = chart
		}
		if len(chart.Lines) == maxChartLines {
			continue
		}
		l := report.Line{Name: r.Run}
		for _, epoch := range slices.Sorted(maps.Keys(r.Loss)) {
			l.X, l.Y = append(l.X, float64(epoch)), append(l.Y, r.Loss[epoch])
		}
		chart.Lines = append(chart.Lines, l)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}

// scoreCharts returns a chart for each target: CRPS by run with its confidence interval, and the
// CRPS of the raw ensemble of all members.
func (c *Collection) scoreCharts(order []comparedScore, of map[comparedScore]map[*CollectedRun]*score.Value) (out []report.Chart) {
	for _, t := range order {
		if !score.IsDistributionCRPS(t.score) || len(of[t]) < 2 {
			continue
		}
		lines := []report.Line{{Name: "network"}, {Name: "low end"}, {Name: "high end"}, {Name: "raw, all"}}
		for _, r := range c.Runs {
			v := of[t][r]
			if v == nil {
				continue
			}
			raw := score.Missing()
			most := 0
			for _, x := range r.Scores.Scores {
				if strings.HasPrefix(x.System, "raw") && x.ID == score.CRPSPlain.ID && x.Members > most && x.Variable == t.variable && x.Level == t.level && x.Lead == t.lead && score.IsOverall(x.Region, x.Season) {
					raw, most = x.Value, x.Members
				}
			}
			for i, y := range []score.Number{v.Value, v.CILow, v.CIHigh, raw} {
				lines[i].X, lines[i].Y = append(lines[i].X, float64(r.number)), append(lines[i].Y, float64(y))
			}
		}
		out = append(out, report.Chart{Title: t.String(), X: "number of the run", Y: "CRPS in " + t.unit, Lines: lines})
	}
	return out
}
