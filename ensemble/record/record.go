// Package record defines the record of a completed experiment: its sources, the machine, and the
// results, with a digest of every file; and the comparison of two records. A record contains no
// paths and no host names, so it can be published. Format: docs/formats/record.md.
package record

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Schema identifies the format of a record.
const Schema = "ensemble.record/1"

// File is the file name of a record in the directory of a completed experiment.
const File = "record.json"

// QualityFile is the file name of a record of times to quality only, without Runs and Checks.
const QualityFile = "quality.json"

// The values of Record.Status.
const (
	Pass = "pass"
	Fail = "fail"
)

// Record is one execution of an experiment.
type Record struct {
	Schema     string          `json:"schema"`
	Experiment string          `json:"experiment"`
	Title      string          `json:"title"`
	Status     string          `json:"status"` // Pass if all checks passed, including those of Quality
	Start      time.Time       `json:"start"`
	End        time.Time       `json:"end"`
	Sources    []Source        `json:"sources"` // experiment.yaml first
	Machine    Machine         `json:"machine"`
	Data       Data            `json:"data"`
	Runs       []Run           `json:"runs"` // by variant, then by origin and seed
	Checks     []Check         `json:"checks"`
	Periods    []score.Period  `json:"periods,omitempty"` // of an experiment with origins
	Trends     []score.Trend   `json:"trends,omitempty"`
	Quality    []TimeToQuality `json:"time_to_quality,omitempty"` // by variant, of a timed run
	Outputs    []manifest.File `json:"outputs,omitempty"`         // tables and pages of all trainings: of a study, of an oracle
}

// Source is a file that defines the experiment.
type Source struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Machine describes hardware and software that can change the bits of a result or its time.
type Machine struct {
	Program     string            `json:"program"` // version
	Go          string            `json:"go"`
	System      string            `json:"system"`
	CPU         string            `json:"cpu"`
	CPUFamily   string            `json:"cpu_family"` // vendor, family/model
	Features    []string          `json:"cpu_features"`
	Cores       int               `json:"cores"`
	Kernels     string            `json:"kernels"` // instruction set of the CPU kernels
	MemoryBytes int64             `json:"memory_bytes"`
	Device      string            `json:"device"`
	GPUs        []string          `json:"gpus,omitempty"`
	Threads     int               `json:"threads"`
	Determinism string            `json:"determinism"`
	Libraries   map[string]string `json:"libraries"`
	Variables   map[string]string `json:"variables,omitempty"` // environment variables that select kernels
}

// Data describes the inputs. Paths are relative to the data directory.
type Data struct {
	From    string          `json:"from"`
	Files   []manifest.File `json:"files"`
	Seconds float64         `json:"seconds"` // time to generate or check the files
}

// Run is one training.
type Run struct {
	Variant string `json:"variant"`
	Origin  string `json:"origin,omitempty"` // begin of the test period; "" without origins
	Seed    int    `json:"seed"`
	// Config is the effective configuration, with ${ENSEMBLE_DATA} for the data directory.
	Config     string          `json:"config"`
	Steps      uint64          `json:"steps"`
	Checkpoint []manifest.File `json:"checkpoint"` // files of the last checkpoint
	Outputs    []manifest.File `json:"outputs"`    // model and scores
	Products   []manifest.File `json:"products,omitempty"`
	Scores     []Score         `json:"scores"`
	Seconds    float64         `json:"seconds"`
}

// Score is a score over the whole area and all seasons.
type Score struct {
	ID       string       `json:"id"`
	System   string       `json:"system"`
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	Unit     string       `json:"unit"`
	N        int          `json:"n"`
	Value    score.Number `json:"value"`
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
}

// Check is an expected score or skill score, with the result.
type Check struct {
	Variant        string `json:"variant"`
	Score          string `json:"score"`
	System         string `json:"system"`
	Reference      string `json:"reference,omitempty"` // of a skill score; "": a score
	ReferenceScore string `json:"reference_score,omitempty"`
	Variable       string `json:"variable"`
	Level          string `json:"level"`
	Lead           string `json:"lead"`
	Unit           string `json:"unit,omitempty"`

	Expected  score.Number `json:"expected"` // null: not compared
	Tolerance float64      `json:"tolerance,omitempty"`
	AtMost    score.Number `json:"at_most"`
	AtLeast   score.Number `json:"at_least"`

	Values []score.Number `json:"values"` // one for each origin and seed
	Value  score.Number   `json:"value"`  // mean of Values
	Low    score.Number   `json:"low"`    // of a skill score: lowest lower bound of the intervals
	Pass   bool           `json:"pass"`
	Why    string         `json:"why,omitempty"` // reason of a failure
}

// Label describes what is checked.
func (c *Check) Label() string {
	name := fmt.Sprintf("%s of %s, %s %s +%s", c.Score, c.System, c.Variable, c.Level, c.Lead)
	if c.Reference != "" {
		name = fmt.Sprintf("skill score of %s relative to %s, %s %s +%s", c.Score, c.Reference, c.Variable, c.Level, c.Lead)
	}
	if c.Variant != experimentfile.BaseVariant {
		name = c.Variant + ": " + name
	}
	return name
}

// Evaluate computes Value and Pass from Values. A check passes if the mean over origins and seeds is within
// Tolerance of Expected and within AtLeast and AtMost, and, for a skill score, if every interval
// is above 0.
func (c *Check) Evaluate() {
	var sum score.Number
	for _, v := range c.Values {
		sum += v
	}
	c.Value, c.Why = sum/score.Number(len(c.Values)), ""
	switch {
	case len(c.Values) == 0 || c.Value != c.Value:
		c.Value, c.Why = score.Missing(), "the score is missing"
	case c.Tolerance > 0 && math.Abs(float64(c.Value-c.Expected)) > c.Tolerance:
		c.Why = fmt.Sprintf("differs by %.2g, more than the tolerance of %.2g", math.Abs(float64(c.Value-c.Expected)), c.Tolerance)
	case c.Value > c.AtMost:
		c.Why = fmt.Sprintf("above %g", c.AtMost)
	case c.Value < c.AtLeast:
		c.Why = fmt.Sprintf("below %g", c.AtLeast)
	case c.Reference != "" && !(c.Low > 0):
		c.Why = "the interval contains 0"
	}
	c.Pass = c.Why == ""
}

// Dir is the run directory of the training below the results of the experiment: VARIANT/seed-N, or
// VARIANT/ORIGIN/seed-N.
func (r *Run) Dir() string { return path.Join(r.Variant, r.Origin, fmt.Sprintf("seed-%d", r.Seed)) }

// FindRun returns the training of a variant for an origin with a seed; nil if there is none.
func (r *Record) FindRun(variant, origin string, seed int) *Run {
	i := slices.IndexFunc(r.Runs, func(x Run) bool { return x.Variant == variant && x.Origin == origin && x.Seed == seed })
	if i < 0 {
		return nil
	}
	return &r.Runs[i]
}

// Write writes the record atomically.
//
// Errors: those of exit.Create.
func (r *Record) Write(path string) error {
	r.Schema = Schema
	return jsonfile.Write(path, r)
}

// maxSize bounds the size of a record file.
const maxSize = 64 << 20

// Read reads a record from a file or from a directory.
//
// Errors: exit 66 if there is none; 65 if it is damaged, modified or of another schema; 74 if
// reading fails.
func Read(path string) (*Record, error) {
	if st, err := filesystem.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, File)
	}
	if st, err := filesystem.Stat(path); err == nil && st.Size() > maxSize {
		return nil, badRecord(path, "not a record", fmt.Sprintf("%d bytes exceed the limit of %d", st.Size(), maxSize))
	}
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	return parse(text, path)
}

// parse decodes and checks the text of a record at path.
func parse(text []byte, path string) (*Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, badRecord(path, "the record is damaged", err.Error())
	}
	if r.Schema != Schema {
		return nil, badRecord(path, "not a record of this program", fmt.Sprintf("schema %q, want %q", r.Schema, Schema))
	}
	if len(r.Sources) == 0 || len(r.Runs) == 0 && len(r.Quality) == 0 || r.Sources[0].Name != experimentfile.FileName {
		return nil, badRecord(path, "the record is damaged", "the experiment or its trainings are missing")
	}
	for i := range r.Quality {
		if !r.Quality[i].isConsistent() {
			return nil, badRecord(path, "the record is damaged", "the lists of times to quality have different lengths")
		}
	}
	for i := range r.Runs {
		if !filepath.IsLocal(r.Runs[i].Dir()) {
			return nil, badRecord(path, "the record names a training outside its experiment", fmt.Sprintf("%q", r.Runs[i].Dir()))
		}
	}
	for _, f := range r.Outputs {
		if !filepath.IsLocal(f.Path) {
			return nil, badRecord(path, "the record names a table outside its experiment", fmt.Sprintf("%q", f.Path))
		}
	}
	for _, s := range r.Sources {
		if filepath.Base(s.Name) != s.Name || !filepath.IsLocal(s.Name) {
			return nil, badRecord(path, "the record names a file outside its experiment", fmt.Sprintf("%q", s.Name))
		}
		if s.SHA256 != Digest(s.Text) {
			return nil, badRecord(path, "the record was modified", "the SHA-256 of "+s.Name+" differs from the recorded one")
		}
	}
	return &r, nil
}

// badRecord is the error of an invalid record.
func badRecord(at, what, why string) error {
	return &exit.Error{Code: exit.BadData, What: what, At: at, Why: why, Fix: "get the record again, or make one with `ensemble experiment run`"}
}
