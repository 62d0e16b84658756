// Package record is what is kept of an experiment that was run: what it was made of, on what machine, and
// what came out, with the digest of every part; and the comparison of two such records. It holds no path
// and no name of a machine, so that it can be published as it is. docs/formats/record.md.
package record

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Schema names the meaning of all fields. Fields are added, never renamed.
const Schema = "ensemble.record/1"

// File is the file of a record in the folder of an experiment that was run.
const File = "record.json"

// QualityFile is the file there of a record of times to a quality alone, which has no Runs and no Checks.
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
	Status     string          `json:"status"` // Pass if all checks passed, those of Quality too
	Start      time.Time       `json:"start"`
	End        time.Time       `json:"end"`
	Sources    []Source        `json:"sources"` // experiment.yaml first
	Machine    Machine         `json:"machine"`
	Data       Data            `json:"data"`
	Runs       []Run           `json:"runs"` // by variant, then by seed
	Checks     []Check         `json:"checks"`
	Quality    []TimeToQuality `json:"time_to_quality,omitempty"` // by variant, of a run that was timed
}

// Source is a file that the experiment is made of.
type Source struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Machine is what may change the bits of a result, or how long it takes.
type Machine struct {
	Program     string            `json:"program"` // version
	Go          string            `json:"go"`
	System      string            `json:"system"`
	CPU         string            `json:"cpu"`
	CPUFamily   string            `json:"cpu_family"` // vendor, family/model
	Features    []string          `json:"cpu_features"`
	Cores       int               `json:"cores"`
	Kernels     string            `json:"kernels"` // instruction set of the program's own
	MemoryBytes int64             `json:"memory_bytes"`
	Device      string            `json:"device"`
	GPUs        []string          `json:"gpus,omitempty"`
	Threads     int               `json:"threads"`
	Determinism string            `json:"determinism"`
	Libraries   map[string]string `json:"libraries"`
	Variables   map[string]string `json:"variables,omitempty"` // of the environment, that choose kernels
}

// Data is what was read. Paths are below the folder of the data.
type Data struct {
	From    string          `json:"from"`
	Files   []manifest.File `json:"files"`
	Seconds float64         `json:"seconds"` // that making or checking them took
}

// Run is one training.
type Run struct {
	Variant string `json:"variant"`
	Seed    int    `json:"seed"`
	// Config is the effective configuration, with ${ENSEMBLE_DATA} for the folder of the data.
	Config     string          `json:"config"`
	Steps      uint64          `json:"steps"`
	Checkpoint []manifest.File `json:"checkpoint"` // parts of the last one
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

// Check is an expected score or gain, and what was found.
type Check struct {
	Variant        string `json:"variant"`
	Score          string `json:"score"`
	System         string `json:"system"`
	Reference      string `json:"reference,omitempty"` // of a gain
	ReferenceScore string `json:"reference_score,omitempty"`
	Variable       string `json:"variable"`
	Level          string `json:"level"`
	Lead           string `json:"lead"`
	Unit           string `json:"unit,omitempty"`

	Expected  score.Number `json:"expected"` // null where the value is not compared
	Tolerance float64      `json:"tolerance,omitempty"`
	AtMost    score.Number `json:"at_most"`
	AtLeast   score.Number `json:"at_least"`

	Values []score.Number `json:"values"` // of the seeds
	Value  score.Number   `json:"value"`  // their mean
	Low    score.Number   `json:"low"`    // of a gain: the lowest end of an interval
	Pass   bool           `json:"pass"`
	Why    string         `json:"why,omitempty"` // it did not pass
}

// Label names what is checked.
func (c *Check) Label() string {
	name := fmt.Sprintf("%s of %s, %s %s +%s", c.Score, c.System, c.Variable, c.Level, c.Lead)
	if c.Reference != "" {
		name = fmt.Sprintf("gain in %s over %s, %s %s +%s", c.Score, c.Reference, c.Variable, c.Level, c.Lead)
	}
	if c.Variant != config.BaseVariant {
		name = c.Variant + ": " + name
	}
	return name
}

// Evaluate finds Value and Pass of what was found with every seed.
func (c *Check) Evaluate() {
	var sum score.Number
	for _, v := range c.Values {
		sum += v
	}
	c.Value, c.Why = sum/score.Number(len(c.Values)), ""
	switch {
	case len(c.Values) == 0 || c.Value != c.Value:
		c.Value, c.Why = score.Missing(), "it was not scored"
	case c.Tolerance > 0 && math.Abs(float64(c.Value-c.Expected)) > c.Tolerance:
		c.Why = fmt.Sprintf("off by %.2g, more than %.2g", math.Abs(float64(c.Value-c.Expected)), c.Tolerance)
	case c.Value > c.AtMost:
		c.Why = fmt.Sprintf("above %g", c.AtMost)
	case c.Value < c.AtLeast:
		c.Why = fmt.Sprintf("below %g", c.AtLeast)
	case c.Reference != "" && !(c.Low > 0):
		c.Why = "the interval reaches 0"
	}
	c.Pass = c.Why == ""
}

// FindRun gives the training of a variant with a seed; nil if there is none.
func (r *Record) FindRun(variant string, seed int) *Run {
	i := slices.IndexFunc(r.Runs, func(x Run) bool { return x.Variant == variant && x.Seed == seed })
	if i < 0 {
		return nil
	}
	return &r.Runs[i]
}

// Write puts a record at a path, whole or not at all.
//
// Errors: those of exit.Create.
func (r *Record) Write(path string) error {
	r.Schema = Schema
	return jsonfile.Write(path, r)
}

// maxSize bounds what is read as a record.
const maxSize = 64 << 20

// Read reads a record: the file, or that in a folder.
//
// Errors: exit 66 if there is none, 65 if it is damaged, changed or of another schema, 74 if reading fails.
func Read(path string) (*Record, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, File)
	}
	if st, err := os.Stat(path); err == nil && st.Size() > maxSize {
		return nil, badRecord(path, "this is no record", fmt.Sprintf("%d bytes are too many", st.Size()))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	return parse(text, path)
}

// parse reads the text of a record, which lies at path.
func parse(text []byte, path string) (*Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, badRecord(path, "the record is damaged", err.Error())
	}
	if r.Schema != Schema {
		return nil, badRecord(path, "this is no record of this program", fmt.Sprintf("schema %q, want %q", r.Schema, Schema))
	}
	if len(r.Sources) == 0 || len(r.Runs) == 0 && len(r.Quality) == 0 || r.Sources[0].Name != config.ExperimentFileName {
		return nil, badRecord(path, "the record is damaged", "it lacks the experiment or its trainings")
	}
	for i := range r.Quality {
		if !r.Quality[i].isConsistent() {
			return nil, badRecord(path, "the record is damaged", "its times to a quality are not of the same trainings")
		}
	}
	for _, s := range r.Sources {
		if filepath.Base(s.Name) != s.Name || !filepath.IsLocal(s.Name) {
			return nil, badRecord(path, "the record names a file outside its experiment", fmt.Sprintf("%q", s.Name))
		}
		if s.SHA256 != Digest(s.Text) {
			return nil, badRecord(path, "the record was changed", s.Name+" in it has another SHA-256 than it says")
		}
	}
	return &r, nil
}

func badRecord(at, what, why string) error {
	return &exit.Error{Code: exit.BadData, What: what, At: at, Why: why, Fix: "get the record again, or make one with `ensemble experiment run`"}
}
