package experiment

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Reproduced is a record that was replayed.
type Reproduced struct {
	Result
	Original   *record.Record
	Comparison *record.Comparison
}

// Reproduce replays a record: runs the experiment that it holds, with its number of threads, and says what
// differs. Without a folder of data, a file experiments/NAME below the working directory may say where they are.
//
// Errors: as Run; exit 65 for what is no record. That results differ is no error: the comparison says so.
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
		return nil, &exit.Error{Code: exit.CannotWrite, What: "the folder holds what the record was made of", At: o.Dir,
			Why: "its trainings are finished, and would be compared with themselves", Fix: "give another folder with --out"}
	}
	source := filepath.Join(o.Dir, "source")
	if err := os.MkdirAll(source, 0o777); err != nil {
		return nil, exit.CreateError(source, err)
	}
	for _, s := range was.Sources {
		to := filepath.Join(source, s.Name)
		if err := exit.CreateError(to, atomicfile.WriteFile(to, []byte(s.Text))); err != nil {
			return nil, err
		}
	}
	if o.Experiment, err = config.LoadExperiment(source); err != nil {
		return nil, err
	}
	if why := contradiction(was, o.Experiment); why != "" {
		return nil, &exit.Error{Code: exit.BadData, What: "the record was changed, or is not whole", At: path, Why: why, Fix: "get the record again, or make one with `ensemble experiment run`"}
	}
	if o.Experiment.Data.Folder = ""; o.Experiment.Data.Source == config.FilesSource && o.Data == "" {
		if here, err := config.LoadExperiment(filepath.Join(config.ExperimentsFolder, o.Experiment.Name)); err == nil {
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

// contradiction says in what a record contradicts the experiment.yaml in it; "" if in nothing. Every check that is taken out of a
// record, or made looser, is one that a replay cannot fail.
func contradiction(r *record.Record, e *config.ExperimentConfig) string {
	if r.Experiment != e.Name {
		return fmt.Sprintf("it is of %q, and its experiment.yaml of %q", r.Experiment, e.Name)
	}
	if r.Machine.Threads < 1 || r.Machine.Program == "" {
		return "it does not say on what machine it was made"
	}
	if len(r.Runs) == 0 { // of times to a quality alone
		if len(r.Checks) > 0 || len(r.Quality) == 0 {
			return "it lacks its trainings"
		}
		return ""
	}
	for _, v := range e.Variants {
		for _, seed := range e.Seeds {
			if r.FindRun(v.Name, seed) == nil {
				return fmt.Sprintf("it lacks the training of %s with seed %d", v.Name, seed)
			}
		}
	}
	same := func(a, b score.Number) bool {
		return a == b || a != a && b != b || math.Abs(float64(a-b)) < 1e-6*math.Abs(float64(b)) // they are rounded in the file
	}
	for _, want := range checksOf(e, nil, nil) {
		i := slices.IndexFunc(r.Checks, func(c record.Check) bool {
			return c.Label() == want.Label() && c.ReferenceScore == want.ReferenceScore
		})
		if i < 0 {
			return "it lacks the check of " + want.Label()
		}
		c := r.Checks[i]
		judged := c
		judged.Evaluate()
		if c.Tolerance != want.Tolerance || !same(c.Expected, want.Expected) || !same(c.AtMost, want.AtMost) || !same(c.AtLeast, want.AtLeast) {
			return "experiment.yaml states another bound for " + c.Label()
		}
		if !same(c.Value, judged.Value) {
			return fmt.Sprintf("the mean of %s over the seeds is not %.5g", c.Label(), float64(c.Value))
		}
	}
	return ""
}

// Passed says whether the record was reproduced: with the same bits where they are promised, within the
// tolerances elsewhere.
func (r *Reproduced) Passed() bool { return r.Comparison.Verdict != record.Differs }

// Sections say what differs between the record and its replay, and what that comes to.
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

// differences are those of what is run, of the machines and of the inputs.
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

// sameBits says whether bits are the same, nil where nothing is known.
func sameBits(same *bool) any {
	switch {
	case same == nil:
		return nil
	case *same:
		return "same bits"
	}
	return "other bits"
}

// sameRuns are the trainings of two records.
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
		s.Rows = append(s.Rows, []any{fmt.Sprintf("%s, seed %d", x.Variant, x.Seed), sameBits(x.Weights), sameBits(x.Checkpoint), sameBits(x.Scores), sameBits(x.Products), largest})
	}
	return s
}

// sameChecks are the checks of two records.
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

// verdict says what a comparison comes to, and why.
func verdict(c *record.Comparison) string {
	causes := strings.Join(c.Causes, "; ")
	switch {
	case c.Verdict == record.SameBits && c.Promised:
		return "the same bits, as promised: nothing differs on which they may depend"
	case c.Verdict == record.SameBits:
		return "the same bits, though they might differ by " + causes
	case c.Verdict == record.WithinTolerance:
		return "other bits, within the tolerances; the probable cause is " + causes
	case c.Promised:
		return "NOT reproduced, though nothing differs on which bits may depend: a defect of the machine or of the program"
	}
	return "NOT reproduced: beyond a tolerance; what differs is " + causes
}
