package experiment

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Reproduced is the result of reproducing a record.
type Reproduced struct {
	Result
	Original   *record.Record
	Comparison *record.Comparison
}

// Reproduce runs the experiment of a record with the same number of threads, and compares the
// results. Without a data directory, data.folder of experiments/NAME in the working directory is
// used.
//
// Errors: those of Run; exit 65 for an invalid record. Different results are no error, but are in the
// comparison.
func Reproduce(ctx context.Context, path string, o Options) (*Reproduced, error) {
	was, err := record.Read(path)
	if err != nil {
		return nil, err
	}
	name := record.File
	if len(was.Runs) == 0 {
		name = record.QualityFile
	}
	if own, err := record.Read(filepath.Join(o.Dir, name)); err == nil && own.Start.Equal(was.Start) && own.End.Equal(was.End) && !o.Overwrite {
		return nil, &exit.Error{Code: exit.CannotWrite, What: "the output directory contains the runs of the record", At: o.Dir,
			Why: "they would be compared with themselves", Fix: "give another directory with --out"}
	}
	source := filepath.Join(o.Dir, "source")
	if err := filesystem.MkdirAll(source, 0o777); err != nil {
		return nil, exit.CreateError(source, err)
	}
	for _, s := range was.Sources {
		to := filepath.Join(source, s.Name)
		if err := exit.CreateError(to, atomicfile.WriteFile(to, []byte(s.Text))); err != nil {
			return nil, err
		}
	}
	if o.Experiment, err = experimentfile.LoadDraft(source); err != nil { // of a study with few seeds
		return nil, err
	}
	if why := contradiction(was, o.Experiment); why != "" {
		return nil, &exit.Error{Code: exit.BadData, What: "the record is incomplete or was modified", At: path, Why: why, Fix: "get the original record, or make one with `ensemble experiment run`"}
	}
	if o.Experiment.Data.Folder = ""; o.Experiment.Data.Source == experimentfile.FilesSource && o.Data == "" {
		if here, err := experimentfile.Load(filepath.Join(experimentfile.ExperimentsFolder, o.Experiment.Name)); err == nil {
			o.Experiment.Data.Folder = here.Data.Folder
		}
	}
	if o.Threads == 0 {
		o.Threads = was.Machine.Threads
	}
	o.ToQuality = len(was.Runs) == 0
	out := &Reproduced{Original: was}
	r, err := Run(ctx, o)
	if err != nil {
		return nil, err
	}
	out.Result, out.Comparison = *r, record.Compare(was, r.Record)
	return out, nil
}

// contradiction describes how a record contradicts its own experiment.yaml; "" if it does not. It detects
// records from which checks were removed, or whose tolerances were increased.
func contradiction(r *record.Record, e *experimentfile.Config) string {
	if r.Experiment != e.Name {
		return fmt.Sprintf("it is the record of %q, but experiment.yaml of %q", r.Experiment, e.Name)
	}
	if r.Machine.Threads < 1 || r.Machine.Program == "" {
		return "it has no description of the machine"
	}
	if len(r.Runs) == 0 { // record of a time-to-quality measurement
		if len(r.Checks) > 0 || len(r.Quality) == 0 {
			return "it has no trainings"
		}
		return ""
	}
	for _, t := range trainings(e) {
		if r.FindRun(t.variant.Name, t.origin, t.seed) == nil {
			return "training of " + t.label() + " is missing"
		}
	}
	same := func(a, b score.Number) bool {
		return a == b || a != a && b != b || math.Abs(float64(a-b)) < 1e-6*math.Abs(float64(b)) // values are rounded in the file
	}
	for _, want := range checksOf(e, nil, nil) {
		i := slices.IndexFunc(r.Checks, func(c record.Check) bool {
			return c.Label() == want.Label() && c.ReferenceScore == want.ReferenceScore
		})
		if i < 0 {
			return "missing check of " + want.Label()
		}
		c := r.Checks[i]
		judged := c
		judged.Evaluate()
		if c.Tolerance != want.Tolerance || !same(c.Expected, want.Expected) || !same(c.AtMost, want.AtMost) || !same(c.AtLeast, want.AtLeast) {
			return "experiment.yaml has a different bound for " + c.Label()
		}
		if !same(c.Value, judged.Value) {
			return fmt.Sprintf("the mean of %s over the seeds is not %.5g", c.Label(), float64(c.Value))
		}
	}
	return ""
}

// Passed reports whether the record was reproduced: bit-identical if the machines promise it, else
// within the tolerances.
func (r *Reproduced) Passed() bool { return r.Comparison.Verdict != record.Differs }

// Sections is the comparison as tables, with a verdict.
func (r *Reproduced) Sections() answer.Sections {
	c := r.Comparison
	all := answer.Sections{differences(c)}
	if c.Runs != nil {
		all = append(all, sameRuns(c.Runs), sameChecks(c.Checks))
	}
	if c.Times != nil {
		all = append(all, sameTimes(c.Times))
	}
	return append(all, answer.Section{Text: []string{verdict(c)}}, answer.Section{Text: []string{r.Path}})
}

// differences is the table of differences in sources, machines and inputs.
func differences(c *record.Comparison) answer.Section {
	const may = "may change bits"
	s := answer.Section{Columns: answer.TextColumns("differs in", "recorded", "here", "")}
	for _, d := range c.Sources {
		s.Rows = append(s.Rows, []any{d.What, d.A, d.B, "what is run"})
	}
	for _, d := range c.Machine {
		note := ""
		if d.Bits {
			note = may
		}
		s.Rows = append(s.Rows, []any{d.What, d.A, d.B, note})
	}
	for i, d := range c.Data {
		if i == humanise.MaxListed {
			s.Rows = append(s.Rows, []any{fmt.Sprintf("and %d inputs more", len(c.Data)-i), "", "", may})
			break
		}
		s.Rows = append(s.Rows, []any{"input " + d.What, d.A, d.B, may})
	}
	if s.Rows == nil {
		s.Rows = [][]any{{"nothing"}}
	}
	return s
}

// sameBits formats whether files are bit-identical; nil if unknown.
func sameBits(same *bool) any {
	switch {
	case same == nil:
		return nil
	case *same:
		return "same bits"
	}
	return "other bits"
}

// sameRuns is the table that compares the trainings of two records.
func sameRuns(all []record.RunComparison) answer.Section {
	s := answer.Section{Columns: answer.TextColumns("training", "weights", "checkpoint", "scores", "products", "largest difference of a score")}
	for _, x := range all {
		var largest any
		if x.Largest == x.Largest {
			largest = "0"
			if x.Largest > 0 {
				largest = fmt.Sprintf("%.2g %% (%s)", 100*float64(x.Largest), x.Of)
			}
		}
		s.Rows = append(s.Rows, []any{trainingLabel(x.Variant, x.Origin, x.Seed), sameBits(x.Weights), sameBits(x.Checkpoint), sameBits(x.Scores), sameBits(x.Products), largest})
	}
	return s
}

// sameChecks is the table that compares the checks of two records.
func sameChecks(all []record.CheckComparison) answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("check"), answer.NumberColumns(fiveDigits, "recorded", "here", "difference", "tolerance"), answer.TextColumns(""))}
	for _, x := range all {
		verdict := "pass"
		if !x.Pass {
			verdict = "FAIL"
		}
		s.Rows = append(s.Rows, []any{x.Name, x.A, x.B, x.B - x.A, x.Tolerance, verdict})
	}
	return s
}

// verdict summarises a comparison and its causes.
func verdict(c *record.Comparison) string {
	causes := strings.Join(c.Causes, "; ")
	switch {
	case c.Verdict == record.SameBits && c.Promised:
		return "bit-identical, as expected on an equivalent machine"
	case c.Verdict == record.SameBits:
		return "bit-identical, despite differences in " + causes
	case c.Verdict == record.WithinTolerance:
		return "not bit-identical, but within the tolerances; probable cause: " + causes
	case c.Promised:
		return "NOT reproduced on an equivalent machine: a defect of the machine or of the program"
	case len(c.Runs) > 0 && len(c.Checks) == 0:
		return fmt.Sprintf("NOT reproduced: the record has no tolerances, which need %d seeds, so only the same bits count; differences: %s", minSeeds, causes)
	}
	return "NOT reproduced: a tolerance is exceeded; differences: " + causes
}
