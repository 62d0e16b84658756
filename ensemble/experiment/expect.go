package experiment

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// minSeeds is the least number of seeds from whose scores tolerances are estimated.
const minSeeds = 3

// Multiples of the standard deviation over seeds: to train with other rounding is like training with another seed.
const (
	toleranceSD = 2 // of an expected score
	boundSD     = 3 // of a skill score below its mean
)

// minTolerance is the least tolerance relative to a score. Kernels for other processors change scores by less.
const minTolerance = 1e-4

// Expect runs an experiment and writes the results into its file: checksums of the data, if none are
// listed, and expected scores with tolerances from the spread over the seeds. Then it runs the finished
// experiment, which trains nothing again, for a record with these expectations.
//
// Scores and skill scores that are listed get new values. Without any those of the network's CRPS and spread are
// listed, and its skill scores relative to all raw members whose intervals are above 0.
//
// Errors: those of Run; exit 64 with fewer than three seeds and for a score that is missing, 65 for a version of
// the program that nobody else has.
func Expect(ctx context.Context, o Options) (*Result, error) {
	e := o.Experiment
	if n := len(e.Seeds); n < minSeeds {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("tolerances need %d seeds, not %d", minSeeds, n), At: e.Path + ", seeds",
			Why: "they are multiples of the standard deviation over seeds", Fix: "list more seeds; the commands that train variants have --seeds"}
	}
	if !version.IsPublished(o.Version) {
		return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("results of version %q of the program cannot be recorded", o.Version), At: e.Path, Why: "nobody else has it: files had changes, or the revision is unknown",
			Fix: "commit the changes and build the program"}
	}
	return o.expect(ctx)
}

// expect runs an experiment, writes its results into its file, and runs that.
func (o *Options) expect(ctx context.Context) (*Result, error) {
	e := o.Experiment
	if err := o.open(ctx); err != nil { // once for both
		return nil, err
	}
	r, err := Run(ctx, *o)
	if err != nil {
		return nil, err
	}
	var results []*score.Result
	for _, t := range trainings(e) {
		scores, err := trained.ReadScores(filepath.Join(o.Dir, t.dir()))
		if err != nil {
			return nil, err
		}
		results = append(results, scores)
	}
	if err := o.writeExpectations(r.Record, results); err != nil {
		return nil, err
	}
	if o.Experiment, err = experimentfile.Load(e.Path); err != nil {
		return nil, err
	}
	return Run(ctx, *o)
}

// writeExpectations replaces sections of the file of the experiment by the results of a run.
func (o *Options) writeExpectations(r *record.Record, results []*score.Result) error {
	e := *o.Experiment
	path := e.Path
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return exit.ReadError(path, err)
	}
	y := sectionEditor{path: path, text: string(text)}
	if e.Data.Source == experimentfile.FilesSource && e.Data.Files == nil {
		y.replace("data", "files", fileLines(r.Data.Files))
	}
	listed := e.Scores != nil || e.SkillScores != nil
	if !listed {
		if err := addExpected(&e, results); err != nil {
			return err
		}
	}
	var scores, skills []string
	for _, c := range checksOf(&e, r.Runs, results) {
		mean, sd := overSeeds(c.Values, len(e.Seeds))
		switch {
		case mean != mean:
			return &exit.Error{Code: exit.Usage, What: "the experiment has no " + c.Label(), At: path, Why: "a training did not compute it", Fix: "remove it, or add the baseline to the configuration"}
		case c.Reference != "" && !listed && !(c.Low > 0): // not expected of this network
		case c.Reference != "":
			c.AtLeast = score.Number(max(0, math.Floor(1000*(mean-boundSD*sd))/1000))
			skills = append(skills, expectedLine(&c))
		default:
			c.Expected, c.Tolerance = score.Number(mean), max(toleranceSD*sd, minTolerance*math.Abs(mean))
			scores = append(scores, expectedLine(&c))
		}
	}
	y.replace("scores", "", scores)
	y.replace("skill_scores", "", skills)
	if y.err != nil {
		return y.err
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, []byte(y.text)))
}

// fileLines are the lines of data.files.
func fileLines(files []manifest.File) (lines []string) {
	for _, f := range files {
		lines = append(lines, fmt.Sprintf("    - {path: %s, sha256: %q}", config.Quote(f.Path), f.SHA256))
	}
	return lines
}

// addExpected lists of each variant the CRPS of the network's distribution and the distance of its spread from that
// of all members, and skill scores relative to all raw members.
func addExpected(e *experimentfile.Config, results []*score.Result) error {
	for i, t := range trainings(e) {
		if t.seed != e.Seeds[0] || t.origin != trainings(e)[0].origin {
			continue
		}
		full := 0
		for _, v := range results[i].Scores {
			if n, ok := scoring.RawMembers(v.System); ok {
				full = max(full, n)
			}
		}
		for _, v := range results[i].Scores {
			if v.System != scoring.SystemNetwork || !score.IsOverall(v.Region, v.Season) || !score.IsDistributionCRPS(v.ID) && v.ID != score.SpreadRMSE.ID {
				continue
			}
			level, err := ensemble.ParseLevel(v.Level)
			if err != nil {
				return err
			}
			lead, err := time.ParseDuration(v.Lead)
			if err != nil {
				return err
			}
			e.Scores = append(e.Scores, experimentfile.ExpectedScore{Variant: t.variant.Name, Score: v.ID, System: v.System, Variable: v.Variable, Level: level, Lead: ensemble.Lead(lead)})
			if full > 0 && score.IsDistributionCRPS(v.ID) {
				e.SkillScores = append(e.SkillScores, experimentfile.ExpectedSkillScore{Variant: t.variant.Name, Score: v.ID, System: v.System, Reference: scoring.SystemRaw(full), ReferenceScore: score.CRPSPlain.ID,
					Variable: v.Variable, Level: level, Lead: ensemble.Lead(lead)})
			}
		}
	}
	return nil
}

// overSeeds returns mean and standard deviation over seeds of the means over origins. values are by origin, then by
// seed.
func overSeeds(values []score.Number, seeds int) (mean, sd float64) {
	means := make([]float64, seeds)
	for i, v := range values {
		means[i%seeds] += float64(v) * float64(seeds) / float64(len(values))
	}
	m, s := meanSD(means)
	return float64(m), float64(s)
}

// expectedLine is the line of experiment.yaml for a check. Values that are the default are left out.
func expectedLine(c *record.Check) string {
	var words []string
	add := func(key, value, unset string) {
		if value != unset {
			words = append(words, key+": "+config.Quote(value))
		}
	}
	number := func(key string, v score.Number, digits int) {
		if v == v && v != 0 {
			words = append(words, key+": "+strconv.FormatFloat(float64(v), 'g', digits, 64))
		}
	}
	add("variant", c.Variant, experimentfile.BaseVariant)
	add("score", c.Score, "")
	add("system", c.System, scoring.SystemNetwork)
	add("reference", c.Reference, "")
	if c.ReferenceScore != c.Score {
		add("reference_score", c.ReferenceScore, "")
	}
	add("variable", c.Variable, "")
	add("level", c.Level, "")
	add("lead", c.Lead, "")
	number("value", c.Expected, 5)
	number("tolerance", score.Number(c.Tolerance), 2)
	number("at_most", c.AtMost, -1)
	number("at_least", c.AtLeast, -1)
	return "  - {" + strings.Join(words, ", ") + "}"
}
