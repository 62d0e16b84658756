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

// Digest is the SHA-256 of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Difference is something that two records say differently. "" stands for what one does not have.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Bits says that the bits of results may depend on it.
	Bits bool `json:"bits"`
}

// ProgramDiffers is the Difference.What of two versions of the program.
const ProgramDiffers = "program"

// decoders are libraries that make numbers of files.
var decoders = []string{"ecCodes", "netCDF", "HDF5"}

// Differences says in what two machines differ.
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

// Comparison says what differs between two records of one experiment.
type Comparison struct {
	Sources []Difference      `json:"sources"` // of what the experiment is made
	Machine []Difference      `json:"machine"`
	Data    []Difference      `json:"data"` // digests of inputs
	Runs    []RunComparison   `json:"runs"`
	Checks  []CheckComparison `json:"checks"`
	Times   []TimeComparison  `json:"times"` // to a quality
	// Promised says that the same bits are promised: nothing differs on which they may depend.
	Promised bool     `json:"promised"`
	Causes   []string `json:"causes"` // why the bits may differ
	Verdict  string   `json:"verdict"`
}

// RunComparison says whether two trainings have the same bits.
type RunComparison struct {
	Variant string `json:"variant"`
	Seed    int    `json:"seed"`
	// Weights, Checkpoint, Scores and Products say whether the files of the kind have the same digests; nil
	// where one record has none, and of products where programs differ, whose versions are in them.
	Weights    *bool `json:"weights"`
	Checkpoint *bool `json:"checkpoint"`
	Scores     *bool `json:"scores"`
	Products   *bool `json:"products"`
	// Largest is the largest relative difference of a score, of Of.
	Largest score.Number `json:"largest"`
	Of      string       `json:"of,omitempty"`
}

// isSame says that nothing of it is known to differ, and something to be the same.
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

// CheckComparison is a check with both values.
type CheckComparison struct {
	Name      string       `json:"name"`
	A         score.Number `json:"a"`
	B         score.Number `json:"b"`
	Tolerance score.Number `json:"tolerance"` // null where none is stated
	Pass      bool         `json:"pass"`
}

// Compare says what differs between a record and a later one of the same experiment.
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
		c.Causes = append(c.Causes, fmt.Sprintf("inputs: %d with other digests, %s first", n, c.Data[0].What))
	}
	c.Promised = len(c.Causes) == 0
	sameProgram := a.Machine.Program == b.Machine.Program
	for i := range a.Runs {
		run := a.Runs[i].compare(b.FindRun(a.Runs[i].Variant, a.Runs[i].Seed), sameProgram)
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
	if len(c.Runs)+len(c.Times) == 0 { // nothing was compared
		c.Verdict = Differs
	}
	if c.Promised && c.Verdict == WithinTolerance {
		c.Verdict = Differs
	}
	return c
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func sourceSums(r *Record) map[string]string {
	out := map[string]string{}
	for _, s := range r.Sources {
		out[s.Name] = s.SHA256
	}
	return out
}

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

func differing(a, b map[string]string) (out []Difference) {
	for _, name := range keys(a, b) {
		if a[name] != b[name] {
			out = append(out, Difference{name, shortDigest(a[name]), shortDigest(b[name]), true})
		}
	}
	return out
}

// shortDigest is the beginning of a digest.
func shortDigest(sum string) string { return sum[:min(len(sum), 12)] }

func (r *Run) compare(o *Run, sameProgram bool) RunComparison {
	out := RunComparison{Variant: r.Variant, Seed: r.Seed, Largest: score.Missing()}
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
		if d == d && !(d <= float64(out.Largest)) { // the first one too, when there is none yet
			out.Largest, out.Of = score.Number(d), fmt.Sprintf("%s of %s, %s %s +%s", s.ID, s.System, s.Variable, s.Level, s.Lead)
		}
	}
	return out
}

// ScoresFile is the file of scores in a run directory.
const ScoresFile = "scores.json"

// compare finds the same check in another record. It passes if it passed there, and where a tolerance is stated lies
// within it of the value here.
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
