package device

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
)

// TestVerdict parses the output of a suite: parent tests are not counted, and a failure includes the output
// of the test.
func TestVerdict(t *testing.T) {
	v := &suiteResult{}
	v.read(strings.NewReader("=== RUN   A\n=== RUN   A/b\n    x.go:1: is 2, want 1\n=== RUN   A/c\n--- FAIL: A (0.2s)\n    --- FAIL: A/b (0.1s)\n    --- SKIP: A/c (0.1s)\n"))
	if v.Started != 2 || v.Passed != 0 || v.Failed != 1 || v.Skipped != 1 || len(v.Skips) != 1 || len(v.Failures) != 1 || v.Failures[0] != (failedTest{"A/b", "x.go:1: is 2, want 1"}) {
		t.Errorf("%+v", v)
	}
	v = &suiteResult{}
	v.read(strings.NewReader("=== RUN   A\n=== RUN   A/b\nfatal error: out of memory\n"))
	if v.Started != 1 || v.Running != "A/b" || v.Why != "fatal error: out of memory" || len(v.Output) != 1 {
		t.Errorf("a crash: %+v", v)
	}
}

// TestPatterns checks that every operation is assigned to one process.
func TestPatterns(t *testing.T) {
	c := Options{Tests: "^A$", Processes: 3}
	seen := map[string]int{}
	for _, p := range c.patterns() {
		names, ok := strings.CutPrefix(strings.TrimSuffix(p, ")$"), "^A$/^(")
		if !ok {
			t.Fatal(p)
		}
		for _, n := range strings.Split(names, "|") {
			seen[n]++
		}
	}
	for _, o := range op.Table {
		if seen[o.Name] != 1 {
			t.Errorf("%s is in %d processes", o.Name, seen[o.Name])
		}
	}
	a, b := &suiteResult{Passed: 2, Complete: true, Slowest: []testTime{{"x", 1}}}, &suiteResult{Failed: 1, Why: "it ends", Running: "y", Slowest: []testTime{{"y", 2}}}
	a.join(b)
	if a.Passed != 2 || a.Failed != 1 || a.Complete || a.Why != "it ends" || a.Slowest[0].Test != "y" {
		t.Errorf("%+v", a)
	}
}

// TestTargets evaluates made-up results: the other program's fastest working variant counts, of several
// rounds the median, and a target without a result is neither met nor missed.
func TestTargets(t *testing.T) {
	ms := func(x float64) *benchstats.Times { return &benchstats.Times{Median: x, N: 5} }
	within, complete, exact, none := true, true, 2e-5, 0
	lines := []answerLine{
		{Case: casePublished, Precision: "bf16", Batch: 2, Train: ms(20), Bytes: 5e9, Conv: 300e3},
		{Case: casePublished, Precision: "bf16", Batch: 2, Train: ms(24), Bytes: 5e9, Conv: 310e3},
		{Case: casePublished, Peer: "pytorch", Form: "slow", Precision: "bf16", Batch: 2, Train: ms(60), Bytes: 1e9},
		{Case: casePublished, Peer: "pytorch", Form: "fast", Precision: "bf16", Batch: 2, Train: ms(33), Bytes: 10e9},
		{Case: casePublished, Peer: "pytorch", Form: "tf32", Precision: "tf32", Batch: 2, Train: ms(1), Bytes: 10e9},
		{Case: casePublished, Peer: "pytorch", Form: "wrong", Precision: "bf16", Batch: 2, Train: ms(2), Error: "not finite: loss"},
		{Case: "peak", Peer: "pytorch", BF16: 700e3},
		{Case: "agree", Precision: "f32", Output: &exact},
		{Case: "learn", Precision: "bf16", Within: &within, Spread: 2, Difference: -1},
		{Case: "conformance", part: "conformance", Complete: &complete, Passed: 9, Emulated: true},
		{Case: "sanitizer", Errors: &none},
		{Case: "memory", Share: 0.5, Ratio: 1.1},
	}
	rs := ratios(lines)
	if len(rs) != 2 || rs[0].Form != "fast" || rs[0].Ours != 11 || rs[0].Peer != 16.5 || rs[0].Ratio != 1.5 || rs[1].Ratio != 2 {
		t.Errorf("ratios %+v", rs)
	}
	type want struct {
		met bool
		got float64
	}
	wants := map[string]want{
		"training step, 2×352×704, batch 2":                 {true, 1.5},
		"memory of a training step, 2×352×704, batch 2":     {true, 0.5},
		"convolution rate relative to matrix product, bf16": {false, 310. / 700},
		"output error relative to float64, f32":             {false, 2e-5},
		"loss after 200 steps, compared with the processor": {true, 0.5},
		"conformance suite":                                 {false, 0}, // nothing failed, but nothing ran on a device
		"compute-sanitizer":                                 {true, 0},
		"step in half of the memory":                        {true, 1.1},
	}
	for _, x := range targets(lines, rs) {
		w, measured := wants[x.Name]
		switch {
		case !measured && (x.Met != nil || x.Why == ""):
			t.Errorf("%s was not measured: %+v", x.Name, x)
		case measured && (x.Met == nil || *x.Met != w.met || *x.Got != w.got):
			t.Errorf("%s: met %v, got %v, want %+v", x.Name, x.Met, x.Got, w)
		}
		delete(wants, x.Name)
	}
	if len(wants) > 0 {
		t.Errorf("no targets %v", wants)
	}
}

// TestField parses sizes of fields.
func TestField(t *testing.T) {
	var f Field
	if err := f.UnmarshalText([]byte("11x361x720")); err != nil || f != (Field{11, 361, 720}) {
		t.Error(f, err)
	}
	if text, err := f.MarshalText(); string(text) != "11x361x720" || err != nil {
		t.Error(string(text), err)
	}
	for _, bad := range []string{"", "2x3", "2x3x4x5", "2x3x4y", "axbxc"} {
		if f.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a field", bad)
		}
	}
}
