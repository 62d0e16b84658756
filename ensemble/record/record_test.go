package record

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// sample is a record of one training.
func sample() *Record {
	c := Check{Variant: experimentfile.BaseVariant, Score: "crps_gauss", System: "network", Variable: "t", Level: "850hPa", Lead: "48h", Unit: "K",
		Expected: 0.5, Tolerance: 0.01, AtMost: score.Missing(), AtLeast: score.Missing(), Low: score.Missing(), Values: []score.Number{0.505}}
	c.Evaluate()
	return &Record{Experiment: "x", Status: Pass,
		Sources: []Source{{experimentfile.FileName, Digest("version: 1\n"), "version: 1\n"}},
		Machine: Machine{Program: "1", CPUFamily: "A 1/2", Kernels: "avx2", Device: "cpu", Threads: 2, Cores: 8, Libraries: map[string]string{"oneDNN": "3.1", "glibc": "2.36"}},
		Data:    Data{Files: []manifest.File{{Path: "a", SHA256: "0f"}}},
		Runs: []Run{{Variant: experimentfile.BaseVariant, Seed: 1, Outputs: []manifest.File{{Path: "model/weights-00.safetensors", SHA256: "01"}, {Path: "model/model.json", SHA256: "02"}, {Path: ScoresFile, SHA256: "03"}},
			Checkpoint: []manifest.File{{Path: "rank-0000.st", SHA256: "04"}}, Products: []manifest.File{{Path: "p.nc", SHA256: "05"}},
			Scores: []Score{{ID: "crps_gauss", System: "network", Variable: "t", Level: "850hPa", Lead: "48h", Value: 0.505}}}},
		Checks: []Check{c}}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*Record)
		promised bool
		verdict  string
		cause    string
	}{
		{"nothing", func(*Record) {}, true, SameBits, ""},
		{"cores and the C library", func(r *Record) { r.Machine.Cores, r.Machine.Libraries["glibc"] = 4, "2.41" }, true, SameBits, ""},
		{"threads, same bits", func(r *Record) { r.Machine.Threads = 1 }, false, SameBits, "threads: 1, was 2"},
		{"weights alone", func(r *Record) { r.Runs[0].Outputs[0].SHA256 = "ff" }, true, Differs, ""},
		{"weights, other kernels", func(r *Record) { r.Machine.Kernels, r.Runs[0].Outputs[0].SHA256 = "base", "ff" }, false, WithinTolerance, "kernels: base, was avx2"},
		{"checkpoint, other oneDNN", func(r *Record) {
			r.Machine.Libraries["oneDNN"], r.Runs[0].Checkpoint[0].SHA256 = "2.7", "ff"
		}, false, WithinTolerance, "oneDNN: 2.7, was 3.1"},
		{"oneDNN is gone", func(r *Record) { delete(r.Machine.Libraries, "oneDNN"); r.Runs[0].Outputs[2].SHA256 = "ff" }, false, WithinTolerance, "oneDNN: none, was 3.1"},
		{"another input", func(r *Record) { r.Data.Files[0].SHA256 = "ff"; r.Runs[0].Outputs[0].SHA256 = "ff" }, false, WithinTolerance, "inputs: 1 with different digests, the first is a"},
		{"products", func(r *Record) { r.Runs[0].Products[0].SHA256 = "ff" }, true, Differs, ""},
		{"products of another program", func(r *Record) { r.Machine.Program, r.Runs[0].Products[0].SHA256 = "2", "ff" }, false, SameBits, "program: 2, was 1"},
		{"the version in the model", func(r *Record) { r.Machine.Program, r.Runs[0].Outputs[1].SHA256 = "2", "ff" }, false, SameBits, "program: 2, was 1"},
		{"scores beyond the tolerance", func(r *Record) {
			r.Machine.Kernels, r.Runs[0].Outputs[2].SHA256 = "base", "ff"
			r.Checks[0].Values[0] = 0.494
			r.Checks[0].Evaluate()
		}, false, Differs, "kernels"},
		{"a check that fails there", func(r *Record) {
			r.Machine.Threads, r.Checks[0].Values[0] = 1, 0.5101
			r.Checks[0].Evaluate()
		}, false, Differs, "threads"},
		{"the training is gone", func(r *Record) { r.Machine.Threads = 1; r.Runs[0].Seed = 2 }, false, WithinTolerance, "threads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := sample(), sample()
			c.change(b)
			got := Compare(a, b)
			if got.Promised != c.promised || got.Verdict != c.verdict || !strings.Contains(strings.Join(got.Causes, "; "), c.cause) || (c.cause == "") != (got.Causes == nil) {
				t.Errorf("promised %v, %s, %v; want %v, %s, %q", got.Promised, got.Verdict, got.Causes, c.promised, c.verdict, c.cause)
			}
		})
	}
	a, b := sample(), sample()
	b.Runs[0].Scores[0].Value *= 1.01
	if got := Compare(a, b).Runs[0]; math.Abs(float64(got.Largest)-0.01) > 1e-12 || !strings.Contains(got.Of, "crps_gauss") {
		t.Errorf("largest difference %g of %s", got.Largest, got.Of)
	}
}

func TestJudge(t *testing.T) {
	no := score.Missing()
	for _, c := range []struct {
		name  string
		check Check
		pass  bool
	}{
		{"within", Check{Expected: 1, Tolerance: 0.1, AtMost: no, AtLeast: no, Values: []score.Number{0.8, 1.1}}, true},
		{"off", Check{Expected: 1, Tolerance: 0.1, AtMost: no, AtLeast: no, Values: []score.Number{0.8, 0.9}}, false},
		{"above", Check{Expected: no, AtMost: 1, AtLeast: no, Values: []score.Number{1.1}}, false},
		{"below", Check{Expected: no, AtMost: no, AtLeast: 1, Values: []score.Number{0.9}}, false},
		{"missing of one seed", Check{Expected: no, AtMost: 1, AtLeast: no, Values: []score.Number{0.9, no}}, false},
		{"nothing", Check{Expected: no, AtMost: 1, AtLeast: no}, false},
		{"a skill score", Check{Reference: "raw", Expected: no, AtMost: no, AtLeast: 0, Values: []score.Number{0.2}, Low: 0.1}, true},
		{"a skill score whose interval includes 0", Check{Reference: "raw", Expected: no, AtMost: no, AtLeast: 0, Values: []score.Number{0.2}, Low: -0.1}, false},
		{"a skill score without an interval", Check{Reference: "raw", Expected: no, AtMost: no, AtLeast: 0, Values: []score.Number{0.2}, Low: no}, false},
	} {
		if c.check.Evaluate(); c.check.Pass != c.pass || c.pass != (c.check.Why == "") {
			t.Errorf("%s: %v, %q; want %v", c.name, c.check.Pass, c.check.Why, c.pass)
		}
	}
}

func TestTimeToQuality(t *testing.T) {
	no := score.Missing()
	for _, c := range []struct {
		name    string
		seconds []score.Number
		want    score.Number
		epochs  []int
		most    score.Number
		why     string
	}{
		{"five", []score.Number{5, 1, 3, 2, 4}, 3, []int{9, 9, 8, 7, 1}, 8, ""},
		{"too few", []score.Number{5, 1, 3, 2}, no, []int{9, 9, 9, 9}, no, ""},
		{"the one that did not converge is the slowest", []score.Number{5, 1, 3, no, 4}, 4, []int{8, 8, 8, 20, 8}, 8, ""},
		{"two did not", []score.Number{5, 1, no, no, 4}, no, []int{8, 8, 20, 20, 8}, no, "2 of 5"},
		{"two of too few", []score.Number{no, no}, no, []int{20, 20}, no, ""},
		{"the slowest does not count", []score.Number{1, 1, 1, 1, 1, 100}, 1, []int{8, 8, 8, 8, 8, 90}, 8, ""},
		{"more epochs than expected", []score.Number{1, 1, 1, 1, 1}, 1, []int{9, 9, 10, 10, 11}, 29. / 3, "9.67 epochs, expected 8 ± 1"},
		{"fewer", []score.Number{1, 1, 1, 1, 1}, 1, []int{6, 6, 6, 6, 6}, 6, "6 epochs"},
	} {
		q := TimeToQuality{Seconds: c.seconds, Processor: c.seconds, Epochs: c.epochs, ExpectedEpochs: 8, Tolerance: 1}
		q.Evaluate()
		for _, x := range [][2]score.Number{{q.Result, c.want}, {q.ProcessorResult, c.want}, {q.EpochsResult, c.most}} {
			if math.Abs(float64(x[0]-x[1])) > 1e-12 || (x[0] == x[0]) != (x[1] == x[1]) {
				t.Errorf("%s: %g, want %g", c.name, x[0], x[1])
			}
		}
		if !strings.HasPrefix(q.Why, c.why) || (c.why == "") != (q.Why == "") {
			t.Errorf("%s: %q, want %q", c.name, q.Why, c.why)
		}
	}
}

// Times to a quality are compared by steps and losses alone.
func TestCompareTimes(t *testing.T) {
	of := func(change func(*Record)) *Record {
		r := sample()
		r.Runs, r.Checks = nil, nil
		r.Quality = []TimeToQuality{{Variant: experimentfile.BaseVariant, Target: 0.5, Seeds: []int{2, 7}, Seconds: []score.Number{10, 20}, Staging: []score.Number{1, 2}, Processor: []score.Number{10, 20}, Epochs: []int{3, 4},
			Steps: []uint64{30, 40}, Loss: []score.Number{0.45, 0.49}}}
		if change != nil {
			change(r)
		}
		return r
	}
	for _, c := range []struct {
		name    string
		change  func(*Record)
		verdict string
		times   int
	}{
		{"nothing", nil, SameBits, 2},
		{"seconds", func(r *Record) { r.Quality[0].Seconds[0] = 11 }, SameBits, 2},
		{"another loss", func(r *Record) { r.Quality[0].Loss[1] = 0.48 }, Differs, 2},
		{"another loss, other kernels", func(r *Record) { r.Quality[0].Loss[1], r.Machine.Kernels = 0.48, "base" }, WithinTolerance, 2},
		{"other epochs than expected", func(r *Record) { r.Quality[0].Why, r.Machine.Kernels = "7 epochs", "base" }, Differs, 2},
		{"another seed", func(r *Record) { r.Quality[0].Seeds = []int{2, 8} }, SameBits, 1},
		{"another quality", func(r *Record) { r.Quality[0].Target = 0.6 }, Differs, 0},
	} {
		if got := Compare(of(nil), of(c.change)); got.Verdict != c.verdict || len(got.Times) != c.times {
			t.Errorf("%s: %s and %d times, want %s and %d", c.name, got.Verdict, len(got.Times), c.verdict, c.times)
		}
	}
	if got := of(nil).SecondsToQuality(experimentfile.BaseVariant, 7); got != 20 {
		t.Errorf("seed 7: %g", got)
	}
	path := filepath.Join(t.TempDir(), QualityFile)
	if err := of(nil).Write(path); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(path); err != nil || len(r.Quality) != 1 {
		t.Errorf("a record without trainings: %v", err)
	}
	if err := of(func(r *Record) { r.Quality[0].Loss = r.Quality[0].Loss[:1] }).Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); exit.CodeOf(err) != exit.BadData {
		t.Errorf("lists of different lengths: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil || !slices.Equal(r.Checks[0].Values, []score.Number{0.505}) || r.Checks[0].AtMost == r.Checks[0].AtMost {
		t.Fatalf("%+v, %v", r, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another schema":      {Schema, "ensemble.run/1"},
		"a changed source":    {`version: 1\n`, `version: 2\n`},
		"a path":              {`"` + experimentfile.FileName, `"../` + experimentfile.FileName},
		"half of it":          {`"runs"`, `"nothing`},
		"no training":         {`"runs"`, `"walks"`},
		"no JSON":             {`{`, ``},
		"a number as a title": {`"title": ""`, `"title": 3`},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s changes nothing", name)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "none")); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no file: %v", err)
	}
}

// FuzzRecord: a record that can be read is evaluated and compared with itself and with another without a crash, and
// does not differ from itself.
func FuzzRecord(f *testing.F) {
	r := sample()
	r.Schema = Schema
	five := []score.Number{1, 2, score.Missing(), 4, 5}
	r.Quality = []TimeToQuality{{Variant: experimentfile.BaseVariant, Seeds: []int{1, 2, 3, 4, 5}, Seconds: five, Staging: five, Processor: five, Epochs: []int{3, 4, 9, 4, 4}, Steps: []uint64{30, 40, 90, 40, 40}, Loss: five}}
	whole, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(bytes.Replace(whole, []byte(`"Values":[0.505]`), []byte(`"Values":null`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parse(text, "record.json")
		if err != nil {
			if exit.CodeOf(err) != exit.BadData {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		b, err := parse(text, "record.json")
		if err != nil {
			t.Fatal(err)
		}
		if c := Compare(a, b); len(c.Causes) > 0 || !c.Promised {
			t.Errorf("%q: a record and itself: %+v", text, c)
		}
		Compare(a, sample())
		Compare(sample(), a)
		for i := range a.Checks {
			a.Checks[i].Evaluate()
		}
		for i := range a.Quality {
			a.Quality[i].Evaluate()
		}
		for _, x := range a.Runs {
			a.FindRun(x.Variant, x.Origin, x.Seed)
			a.SecondsToQuality(x.Variant, x.Seed)
		}
	})
}
