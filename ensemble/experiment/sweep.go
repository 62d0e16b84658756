package experiment

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/compress"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// SweepOptions configures a sweep.
type SweepOptions struct {
	Config config.Sources // base configuration
	Dir    string         // output directory
	Keys   []SweepKey
	Trials int    // random trials; 0: all combinations
	Seed   uint64 // of the random trials
	Seeds  int    // trainings of each trial, with seeds train.seed, train.seed+1, …; 0: 1
	// Final: train the best trial with the test dates too, and log that they were looked at.
	Final    bool
	Version  string
	Stop     func() error
	Timings  setup.Timings
	Progress *progress.Reporter
	Warn     func(string)
}

// Sweep is the result of a sweep, sweep.json.
type Sweep struct {
	Schema    string     `json:"schema"`
	Version   string     `json:"version"`
	Keys      []SweepKey `json:"keys"`
	Seeds     int        `json:"seeds"`
	Dates     string     `json:"validation"` // dates on which the trials were compared
	Rows      []SweepRow `json:"rows"`       // the best trial first
	TestLooks []TestLook `json:"test_looks"` // each time that a trial was scored on the test dates

	Dir   string `json:"-"`
	Final *Study `json:"-"` // test of the best trial; nil: none
}

// SweepRow is the score of a trial on one target, over the validation dates. With several seeds Skill and CRPS
// are means.
type SweepRow struct {
	Trial    string       `json:"trial"` // name of its directory
	Settings string       `json:"settings"`
	Skill    score.Number `json:"skill"` // CRPSS against all raw members, mean over the targets
	SD       score.Number `json:"sd"`    // of the skill over seeds; missing for one seed
	Target   string       `json:"target"`
	CRPS     score.Number `json:"crps"`
	Unit     string       `json:"unit"`
	N        int          `json:"n"` // initialisations
}

// Files of a sweep.
const (
	sweepFile   = "sweep.json"
	sweepTable  = "sweep.csv"
	sweepSchema = "ensemble.sweep/1"
)

// trial is one setting of the keys.
type trial struct {
	set  []string
	name string
}

// newTrial names a trial by a digest of its overrides, so that a sweep with other values finds its run.
func newTrial(set []string) trial {
	return trial{set, "trial-" + record.Digest(strings.Join(set, "\n"))[:8]}
}

// RunSweep trains each trial without the test dates, and compares them on the validation dates. Interrupted
// trainings are resumed, finished ones skipped.
//
// Errors: those of Trials and train.Run; exit 64 for a split by fractions, and for networks without CRPS.
func RunSweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	o.Seeds = max(o.Seeds, 1)
	base, err := config.LoadTrainWithoutTest(o.Config)
	if err != nil {
		return nil, err
	}
	var test string
	if o.Final {
		if test, err = o.testDates(); err != nil {
			return nil, err
		}
	}
	sets, err := Trials(o.Keys, o.Trials, o.Seed)
	if err != nil {
		return nil, err
	}
	var trials []trial
	for _, set := range sets { // report faults before the first training
		c, err := o.load(set, 0)
		if err != nil {
			return nil, err
		}
		if c.Model.Head == config.SpreadHead {
			return nil, &exit.Error{Code: exit.Usage, What: "a sweep needs a network with a distribution or members", At: "model.head", Why: "trials are compared by CRPS, which head " + string(c.Model.Head) + " does not have",
				Fix: "set model.head, or compare with `ensemble experiment ablation`"}
		}
		trials = append(trials, newTrial(set))
	}
	period := base.Data.Split.Validation
	s := &Sweep{Schema: sweepSchema, Version: o.Version, Keys: o.Keys, Seeds: o.Seeds, Dates: period.From.String() + " to " + period.To.String(), Dir: o.Dir}
	for _, t := range trials {
		rows, err := o.tryOne(ctx, t)
		if err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, rows...)
	}
	slices.SortStableFunc(s.Rows, func(a, b SweepRow) int { // a missing skill last
		return cmp.Or(cmp.Compare(b.Skill, a.Skill), strings.Compare(a.Trial, b.Trial))
	})
	if s.TestLooks, err = readLooks(o.Dir); err != nil {
		return nil, err
	}
	if o.Final {
		best := trials[slices.IndexFunc(trials, func(t trial) bool { return t.name == s.Rows[0].Trial })]
		if err := o.testBest(ctx, s, best, test); err != nil {
			return nil, err
		}
	}
	return s, reports.SaveFindings(s.Dir, sweepTable, s.Rows, s.page(), sweepFile, s)
}

// load loads the configuration of a trial without test dates, with the k-th seed.
func (o *SweepOptions) load(set []string, k int) (*config.TrainConfig, error) {
	src := o.Config
	src.Set = slices.Concat(src.Set, set)
	c, err := config.LoadTrainWithoutTest(src)
	if err != nil || k == 0 {
		return c, err
	}
	src.Set = append(src.Set, fmt.Sprintf("train.seed=%d", c.Train.Train.Seed+k))
	return config.LoadTrainWithoutTest(src)
}

// tryOne trains a trial with each seed and returns its rows.
func (o *SweepOptions) tryOne(ctx context.Context, t trial) (rows []SweepRow, err error) {
	var skills []float64
	for k := range o.Seeds {
		c, err := o.load(t.set, k)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(o.Dir, t.name, fmt.Sprintf("seed-%d", c.Train.Train.Seed))
		if _, err := train.Run(ctx, train.Options{Config: c, RunDir: dir, Resume: "auto", Version: o.Version, Stop: o.Stop, Timings: o.Timings, Progress: o.Progress, Warn: o.Warn}); err != nil {
			return nil, err
		}
		v, err := compress.ValidationSkill(ctx, dir, c.Train.Train.Threads)
		if err != nil {
			return nil, err
		}
		skills = append(skills, float64(v.Skill))
		for i, x := range v.CRPS {
			if k == 0 {
				rows = append(rows, SweepRow{Trial: t.name, Settings: strings.Join(t.set, " "), Target: x.Target, Unit: x.Unit, N: v.Inits})
			}
			rows[i].CRPS += x.CRPS / score.Number(o.Seeds)
		}
	}
	mean, sd := meanSD(skills)
	for i := range rows {
		rows[i].Skill, rows[i].SD = mean, sd
	}
	return rows, nil
}

// Outputs lists the files of the sweep, without run directories.
func (s *Sweep) Outputs() []string {
	return []string{filepath.Join(s.Dir, sweepTable), filepath.Join(s.Dir, "report", reports.PageFile), filepath.Join(s.Dir, sweepFile)}
}

// Sections is the rows as a table, the test of the best trial if there is one, and the files.
func (s *Sweep) Sections() answer.Sections {
	all := answer.Sections{s.table()}
	if s.Final != nil {
		all = append(all, s.Final.table())
	}
	return append(all, answer.Section{Text: append([]string{s.looks()}, s.Outputs()...)})
}

// looks states how often the test dates were looked at.
func (s *Sweep) looks() string {
	if len(s.TestLooks) == 0 {
		return "The test dates were not looked at. Trials were compared on " + s.Dates + "."
	}
	return fmt.Sprintf("The test dates were looked at %d times, last on %s.", len(s.TestLooks), s.TestLooks[len(s.TestLooks)-1].Time.Format("2006-01-02 15:04 MST"))
}

// table is the table of rows.
func (s *Sweep) table() answer.Section {
	t := answer.Section{Columns: slices.Concat(answer.TextColumns("trial", "settings"), []answer.Column{answer.NumberColumn("reduction vs raw, all", "", "%.2f %%"), answer.NumberColumn("sd over seeds", "", "%.2f %%")},
		answer.TextColumns("target"), answer.NumberColumns(fiveDigits, "CRPS"), answer.TextColumns("unit"), answer.NumberColumns("", "dates"))}
	for _, r := range s.Rows {
		t.Rows = append(t.Rows, []any{r.Trial, r.Settings, 100 * r.Skill, 100 * r.SD, r.Target, r.CRPS, r.Unit, r.N})
	}
	return t
}

// page is the HTML page of the sweep.
func (s *Sweep) page() *report.Page {
	return &report.Page{Title: "Sweep " + filepath.Base(s.Dir), Tables: []report.Table{report.TableOf("Trials, on validation dates", s.table())},
		Status: []report.Fact{{Name: "validation", Text: s.Dates}, {Name: "test", Text: s.looks()}, {Name: "seeds", Text: fmt.Sprint(s.Seeds)}, {Name: "program", Text: s.Version}}}
}
