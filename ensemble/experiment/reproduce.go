package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Reproduced is a record that was replayed.
type Reproduced struct {
	Result
	Was        *record.Record
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
	name := record.Name
	if len(was.Runs) == 0 {
		name = record.QualityName
	}
	if own, err := record.Read(filepath.Join(o.Dir, name)); err == nil && own.Start.Equal(was.Start) && own.End.Equal(was.End) && !o.Overwrite {
		return nil, &exit.Error{Code: exit.CannotWrite, What: "the folder holds what the record was made of", At: o.Dir,
			Why: "its trainings are finished, and would be compared with themselves", Fix: "give another folder with --out"}
	}
	source := filepath.Join(o.Dir, "source")
	if err := os.MkdirAll(source, 0o777); err != nil {
		return nil, exit.Create(source, err)
	}
	for _, s := range was.Sources {
		to := filepath.Join(source, s.Name)
		if err := exit.Create(to, atomicfile.WriteFile(to, []byte(s.Text))); err != nil {
			return nil, err
		}
	}
	if o.Experiment, err = config.LoadExperiment(source); err != nil {
		return nil, err
	}
	if why := incomplete(was, o.Experiment); why != "" {
		return nil, &exit.Error{Code: exit.BadData, What: "the record was changed, or is not whole", At: path, Why: why, Fix: "get the record again, or make one with `ensemble experiment run`"}
	}
	if o.Experiment.Data.Folder = ""; o.Experiment.Data.From == config.DataOfFiles && o.Data == "" {
		if here, err := config.LoadExperiment(filepath.Join(config.ExperimentsFolder, o.Experiment.Name)); err == nil {
			o.Experiment.Data.Folder = here.Data.Folder
		}
	}
	if o.Threads == 0 {
		o.Threads = was.Machine.Threads
	}
	o.ToQuality = len(was.Runs) == 0
	out := &Reproduced{Was: was}
	r, err := Run(ctx, o)
	if err != nil {
		return nil, err
	}
	out.Result, out.Comparison = *r, record.Compare(was, r.Record)
	return out, nil
}

// incomplete says in what a record contradicts the experiment.yaml in it; "" if in nothing. Every check that is taken out of a
// record, or made looser, is one that a replay cannot fail.
func incomplete(r *record.Record, e *config.ExperimentConfig) string {
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
			if r.Of(v.Name, seed) == nil {
				return fmt.Sprintf("it lacks the training of %s with seed %d", v.Name, seed)
			}
		}
	}
	same := func(a, b score.Number) bool {
		return a == b || a != a && b != b || math.Abs(float64(a-b)) < 1e-6*math.Abs(float64(b)) // they are rounded in the file
	}
	for _, want := range checksOf(e, nil, nil) {
		i := slices.IndexFunc(r.Checks, func(c record.Check) bool {
			return c.Called() == want.Called() && c.ReferenceScore == want.ReferenceScore
		})
		if i < 0 {
			return "it lacks the check of " + want.Called()
		}
		c := r.Checks[i]
		judged := c
		judged.Judge()
		if c.Tolerance != want.Tolerance || !same(c.Expected, want.Expected) || !same(c.AtMost, want.AtMost) || !same(c.AtLeast, want.AtLeast) {
			return "experiment.yaml states another bound for " + c.Called()
		}
		if !same(c.Value, judged.Value) {
			return fmt.Sprintf("the mean of %s over the seeds is not %.5g", c.Called(), float64(c.Value))
		}
	}
	return ""
}

// Passed says whether the record was reproduced: with the same bits where they are promised, within the
// tolerances elsewhere.
func (r *Reproduced) Passed() bool { return r.Comparison.Verdict != record.Differs }

// Fprint says what differs.
func (r *Reproduced) Fprint(w io.Writer) error {
	return fprintComparison(w, r.Comparison, "recorded", "here")
}

// fprintComparison writes what two records say differently.
func fprintComparison(w io.Writer, c *record.Comparison, a, b string) error {
	var rows [][]string
	for _, d := range c.Sources {
		rows = append(rows, []string{d.What, d.A, d.B, "what is run"})
	}
	for _, d := range c.Machine {
		may := ""
		if d.Bits {
			may = "may change bits"
		}
		rows = append(rows, []string{d.What, d.A, d.B, may})
	}
	for i, d := range c.Data {
		if i == phrase.MaxListed {
			rows = append(rows, []string{fmt.Sprintf("and %d inputs more", len(c.Data)-i), "", "", "may change bits"})
			break
		}
		rows = append(rows, []string{"input " + d.What, d.A, d.B, "may change bits"})
	}
	if rows == nil {
		rows = [][]string{{"nothing", "", "", ""}}
	}
	if err := phrase.FprintTable(w, []string{"differs in", a, b, ""}, rows); err != nil {
		return err
	}
	if c.Runs != nil {
		if err := fprintSameRuns(w, c, a, b); err != nil {
			return err
		}
	}
	if err := fprintSameTimes(w, c.Times, a, b); err != nil {
		return err
	}
	return fprintVerdict(w, c)
}

// fprintSameRuns writes what came out of trainings in two records, and the checks.
func fprintSameRuns(w io.Writer, c *record.Comparison, a, b string) error {
	fmt.Fprintln(w)
	var rows [][]string
	word := func(same *bool) string {
		switch {
		case same == nil:
			return "–"
		case *same:
			return "same bits"
		}
		return "other bits"
	}
	for _, x := range c.Runs {
		largest := "–"
		if x.Largest == x.Largest {
			largest = "0"
			if x.Largest > 0 {
				largest = fmt.Sprintf("%.2g %% (%s)", 100*float64(x.Largest), x.Of)
			}
		}
		rows = append(rows, []string{fmt.Sprintf("%s, seed %d", x.Variant, x.Seed), word(x.Weights), word(x.Checkpoint), word(x.Scores), word(x.Products), largest})
	}
	if err := phrase.FprintTable(w, []string{"training", "weights", "checkpoint", "scores", "products", "largest difference of a score"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows = nil
	for _, x := range c.Checks {
		verdict := "pass"
		if !x.Pass {
			verdict = "FAIL"
		}
		rows = append(rows, []string{x.Name, shortNumber(x.A), shortNumber(x.B), shortNumber(x.B - x.A), shortNumber(x.Tolerance), verdict})
	}
	return phrase.FprintTable(w, []string{"check", a, b, "difference", "tolerance", ""}, rows)
}

// fprintVerdict says what the comparison comes to, and why.
func fprintVerdict(w io.Writer, c *record.Comparison) error {
	causes := strings.Join(c.Causes, "; ")
	text := ""
	switch {
	case c.Verdict == record.SameBits && c.Promised:
		text = "the same bits, as promised: nothing differs on which they may depend"
	case c.Verdict == record.SameBits:
		text = "the same bits, though they might differ by " + causes
	case c.Verdict == record.WithinTolerance:
		text = "other bits, within the tolerances; the probable cause is " + causes
	case c.Promised:
		text = "NOT reproduced, though nothing differs on which bits may depend: a defect of the machine or of the program"
	default:
		text = "NOT reproduced: beyond a tolerance; what differs is " + causes
	}
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}
