package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Digest is the SHA-256 digest of a text in hexadecimal.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Difference is a property in which two records differ. "" stands for a missing value.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Bits: the bits of results may depend on it.
	Bits bool `json:"bits"`
}

// ProgramDiffers is Difference.What for different versions of the program.
const ProgramDiffers = "program"

// decoders are libraries that decode files, so results depend on them.
var decoders = []string{"ecCodes", "netCDF", "HDF5"}

// Differences lists the properties in which two machines differ.
func (m *Machine) Differences(o *Machine) (out []Difference) {
	add := func(what, a, b string, bits bool) {
		if a != b {
			out = append(out, Difference{what, a, b, bits})
		}
	}
	add(ProgramDiffers, m.Program, o.Program, true)
	add("system", m.System, o.System, true)
	add("device", m.Device, o.Device, true)
	add("threads", strconv.Itoa(m.Threads), strconv.Itoa(o.Threads), true)
	add("CPU family", m.CPUFamily, o.CPUFamily, true)
	add("CPU features", strings.Join(m.Features, " "), strings.Join(o.Features, " "), true)
	add("kernels", m.Kernels, o.Kernels, true)
	add("GPUs", strings.Join(m.GPUs, ", "), strings.Join(o.GPUs, ", "), m.Device != "cpu" || o.Device != "cpu")
	add("determinism", m.Determinism, o.Determinism, true)
	add("CPU", m.CPU, o.CPU, false)
	add("cores", strconv.Itoa(m.Cores), strconv.Itoa(o.Cores), false)
	add("memory", fmt.Sprintf("%.1f GiB", float64(m.MemoryBytes)/(1<<30)), fmt.Sprintf("%.1f GiB", float64(o.MemoryBytes)/(1<<30)), false)
	add("Go", m.Go, o.Go, false)
	for _, name := range keys(m.Libraries, o.Libraries) {
		add(name, m.Libraries[name], o.Libraries[name], name == "oneDNN" || slices.Contains(decoders, name))
	}
	for _, name := range keys(m.Variables, o.Variables) {
		add(name, m.Variables[name], o.Variables[name], true)
	}
	return out
}

// keys returns the keys of both maps, ascending.
func keys(a, b map[string]string) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// The values of Comparison.Verdict.
const (
	SameBits        = "same bits"
	WithinTolerance = "within tolerance"
	Differs         = "differs"
)

// Comparison holds the differences between two records of one experiment.
type Comparison struct {
	Sources []Difference      `json:"sources"` // files that define the experiment
	Machine []Difference      `json:"machine"`
	Data    []Difference      `json:"data"` // digests of inputs
	Runs    []RunComparison   `json:"runs"`
	Checks  []CheckComparison `json:"checks"`
	Times   []TimeComparison  `json:"times"` // times to quality
	// Promised: equal bits are guaranteed, since nothing differs on which they may depend.
	Promised bool     `json:"promised"`
	Causes   []string `json:"causes"` // why the bits may differ
	Verdict  string   `json:"verdict"`
}

// RunComparison reports whether two trainings have equal bits.
type RunComparison struct {
	Variant string `json:"variant"`
	Origin  string `json:"origin,omitempty"`
	Seed    int    `json:"seed"`
	// Weights, Checkpoint, Scores and Products report whether the files of the kind have equal digests; nil
	// if a record has none, and for products of different program versions, which they contain.
	Weights    *bool `json:"weights"`
	Checkpoint *bool `json:"checkpoint"`
	Scores     *bool `json:"scores"`
	Products   *bool `json:"products"`
	// Largest is the largest relative difference of a score, Of the name of that score.
	Largest score.Number `json:"largest"`
	Of      string       `json:"of,omitempty"`
}

// isSame reports whether at least one kind of file is equal, and none differs.
func (r *RunComparison) isSame() bool {
	known := false
	for _, s := range []*bool{r.Weights, r.Checkpoint, r.Scores, r.Products} {
		if s != nil && !*s {
			return false
		}
		known = known || s != nil
	}
	return known
}

// CheckComparison is a check with the values of both records.
type CheckComparison struct {
	Name      string       `json:"name"`
	A         score.Number `json:"a"`
	B         score.Number `json:"b"`
	Tolerance score.Number `json:"tolerance"` // null: none
	Pass      bool         `json:"pass"`
}

// Compare compares a record with a later one of the same experiment. The verdict is SameBits if
// all files are equal, Differs if a check fails, if equal bits were guaranteed but not found, or if
// other bits have no checks, and WithinTolerance otherwise.
func Compare(a, b *Record) *Comparison {
	c := &Comparison{Machine: a.Machine.Differences(&b.Machine), Data: differingFiles(a.Data.Files, b.Data.Files), Verdict: SameBits}
	c.Sources = differing(sourceSums(a), sourceSums(b))
	for _, list := range [][]Difference{c.Sources, c.Machine} {
		for _, d := range list {
			if d.Bits {
				c.Causes = append(c.Causes, fmt.Sprintf("%s: %s, was %s", d.What, orNone(d.B), orNone(d.A)))
			}
		}
	}
	if n := len(c.Data); n > 0 {
		c.Causes = append(c.Causes, fmt.Sprintf("inputs: %d with different digests, the first is %s", n, c.Data[0].What))
	}
	c.Promised = len(c.Causes) == 0
	sameProgram := a.Machine.Program == b.Machine.Program
	for i := range a.Runs {
		run := a.Runs[i].compare(b.FindRun(a.Runs[i].Variant, a.Runs[i].Origin, a.Runs[i].Seed), sameProgram)
		if !run.isSame() {
			c.Verdict = WithinTolerance
		}
		c.Runs = append(c.Runs, run)
	}
	for i := range a.Checks {
		check := a.Checks[i].compare(b)
		if !check.Pass {
			c.Verdict = Differs
		}
		c.Checks = append(c.Checks, check)
	}
	c.Times = compareTimes(a, b)
	for _, x := range c.Times {
		if !x.Same && c.Verdict == SameBits {
			c.Verdict = WithinTolerance
		}
	}
	for _, q := range b.Quality {
		if slices.ContainsFunc(a.Quality, func(p TimeToQuality) bool { return p.Variant == q.Variant && p.Why == "" && q.Why != "" }) {
			c.Verdict = Differs
		}
	}
	nothing := len(c.Runs)+len(c.Times) == 0
	noTolerance := len(c.Runs) > 0 && len(c.Checks) == 0 // only the same bits reproduce it
	if nothing || c.Verdict == WithinTolerance && (c.Promised || noTolerance) {
		c.Verdict = Differs
	}
	return c
}

// orNone replaces an empty text by "none".
func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// sourceSums maps the names of the sources to their digests.
func sourceSums(r *Record) map[string]string {
	out := map[string]string{}
	for _, s := range r.Sources {
		out[s.Name] = s.SHA256
	}
	return out
}

// differingFiles lists the files whose digests differ.
func differingFiles(a, b []manifest.File) []Difference {
	of := func(list []manifest.File) map[string]string {
		out := map[string]string{}
		for _, f := range list {
			out[f.Path] = f.SHA256
		}
		return out
	}
	return differing(of(a), of(b))
}

// differing lists the keys with different digests.
func differing(a, b map[string]string) (out []Difference) {
	for _, name := range keys(a, b) {
		if a[name] != b[name] {
			out = append(out, Difference{name, shortDigest(a[name]), shortDigest(b[name]), true})
		}
	}
	return out
}

// shortDigest is the beginning of a digest, for display.
func shortDigest(sum string) string { return sum[:min(len(sum), 12)] }

// compare compares a training with that of another record; nil: the training is missing there.
func (r *Run) compare(o *Run, sameProgram bool) RunComparison {
	out := RunComparison{Variant: r.Variant, Origin: r.Origin, Seed: r.Seed, Largest: score.Missing()}
	if o == nil {
		return out
	}
	same := func(a, b []manifest.File, of func(path string) bool) *bool {
		drop := func(f manifest.File) bool { return !of(f.Path) }
		a, b = slices.DeleteFunc(slices.Clone(a), drop), slices.DeleteFunc(slices.Clone(b), drop)
		if len(a) == 0 || len(b) == 0 {
			return nil
		}
		equal := len(differingFiles(a, b)) == 0
		return &equal
	}
	all := func(string) bool { return true }
	out.Weights = same(r.Outputs, o.Outputs, func(p string) bool { return path.Ext(p) == ".safetensors" })
	out.Scores = same(r.Outputs, o.Outputs, func(p string) bool { return p == ScoresFile })
	out.Checkpoint = same(r.Checkpoint, o.Checkpoint, all)
	if sameProgram {
		out.Products = same(r.Products, o.Products, all)
	}
	for _, s := range r.Scores {
		i := slices.IndexFunc(o.Scores, func(t Score) bool {
			return t.ID == s.ID && t.System == s.System && t.Variable == s.Variable && t.Level == s.Level && t.Lead == s.Lead
		})
		if i < 0 {
			continue
		}
		d := math.Abs(float64(o.Scores[i].Value-s.Value)) / math.Max(math.Abs(float64(s.Value)), math.SmallestNonzeroFloat32)
		if d == d && !(d <= float64(out.Largest)) { // also for the first score, when Largest is NaN
			out.Largest, out.Of = score.Number(d), fmt.Sprintf("%s of %s, %s %s +%s", s.ID, s.System, s.Variable, s.Level, s.Lead)
		}
	}
	return out
}

// ScoresFile is the file of scores in a run directory.
const ScoresFile = "scores.json"

// compare finds the same check in another record. It passes if it passed there, and, with a
// tolerance, if both values differ by no more than that.
func (c *Check) compare(o *Record) CheckComparison {
	out := CheckComparison{Name: c.Label(), A: c.Value, B: score.Missing(), Tolerance: score.Missing()}
	if c.Tolerance > 0 {
		out.Tolerance = score.Number(c.Tolerance)
	}
	i := slices.IndexFunc(o.Checks, func(d Check) bool { return d.Label() == out.Name && d.ReferenceScore == c.ReferenceScore })
	if i < 0 {
		return out
	}
	out.B = o.Checks[i].Value
	off := math.Abs(float64(out.B - out.A))
	out.Pass = (o.Checks[i].Pass || !c.Pass) && (c.Tolerance == 0 || off <= c.Tolerance)
	return out
}
