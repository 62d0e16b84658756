package cost

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write coefficients.json from races.json")

// committedRaces reads the races of the fit.
func committedRaces(t *testing.T) *Races { return readRaces(t, "races.json") }

// readRaces reads a file of races of the repository.
func readRaces(t *testing.T, path string) *Races {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRaces(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCoefficients: coefficients.json is the fit to races.json. With -update it is written.
func TestCoefficients(t *testing.T) {
	m, err := FitAll(committedRaces(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("coefficients.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(fittedText, want) {
		t.Error("coefficients.json is not the fit to races.json: run go generate ./engine/cost")
	}
}

// sameCPU reports whether setups have one kind of processor.
func sameCPU(a, b Setup) bool { return a.Machine.processor() == b.Machine.processor() }

// TestOtherProcessor: the steps of each processor by the fit to those of another make. The bounds are those of docs/performance.md.
func TestOtherProcessor(t *testing.T) {
	all, err := LeaveOut(committedRaces(t), sameCPU)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]Residual{}
	for _, x := range all {
		by[x.Setup.Machine.processor()] = append(by[x.Setup.Machine.processor()], x)
	}
	for cpu, some := range by {
		t.Logf("%s: %+v", cpu, BandOf(some))
	}
	if b := BandOf(all); len(by) != 2 || b.Steps != 260 || b.Median > 0.15 || b.P95 > 0.31 {
		t.Errorf("%d processors, %+v; want 2, 260 steps, a median of at most 0.15 and 95 %% of at most 0.31", len(by), b)
	}
}

// syntheticRaces are races of two kinds of operations on machines that obey the model with these coefficients exactly.
func syntheticRaces(t *testing.T, kinds map[string]Coefficients) *Races {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	var steps []Step
	for range 4 {
		s := Step{Values: int64(1+random.IntN(400)) << 20}
		for range 20 {
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				w := Work{Kind: kind, Class: classOf(kind), Shape: "[1]"}
				for k := range w.Amounts {
					w.Amounts[k] = math.Round(math.Pow(10, 5+3*random.Float64()))
				}
				s.Ops = append(s.Ops, w)
			}
		}
		steps = append(steps, s)
	}
	model := &Model{Kinds: kinds}
	r := &Races{}
	for i, isa := range []string{"base", "avx2", "avx512"} {
		m := testMachine(isa, 1+1.7*float64(i), 1, 2)
		m.CPU = fmt.Sprint("processor ", i)
		for k := range m.Rates { // not all in proportion
			m.Rates[k].Start, m.Rates[k].DRAM = 1e-6, 8e9+1e9*float64(i)
			m.Rates[k].Elementwise *= 1 + float64(i)
		}
		for _, threads := range []int{1, 2} {
			s, err := m.Setup(threads, "f32")
			if err != nil {
				t.Fatal(err)
			}
			var all []MeasuredStep
			for n, step := range steps {
				step.Producers = chainOf(len(step.Ops))
				measured := MeasuredStep{Step: step, Network: string(rune('a' + n)), Phase: "train"}
				for _, w := range step.Ops {
					o, _ := model.Time(s, w, step.Values)
					measured.OpTimes = append(measured.OpTimes, o)
					measured.Time += o
				}
				all = append(all, measured)
			}
			r.Add(s, all)
		}
	}
	return r
}

// chainOf are the producers of n operations that each read the result before.
func chainOf(n int) (p Producers) {
	for i := range n {
		p = append(p, []int{i - 1})
	}
	return p
}

// TestFitRecovers: of exact races the fit without weight of the coefficients finds them, and with it steps of setups that are left out are
// predicted within that weight.
func TestFitRecovers(t *testing.T) {
	kinds := map[string]Coefficients{
		"contraction/forward/x": {direct: 0.25, products: 1.5, moved: 0.5, start: 2},
		"map/add":               {flops: 0.125, moved: 1, near: 3, start: 1},
	}
	r := syntheticRaces(t, kinds)
	m, err := fit(r, 0, func(Setup) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range kinds {
		for i, c := range m.Kinds[kind] {
			if math.Abs(c-want[i]) > 1e-3 {
				t.Errorf("%s: coefficient %d is %g, want %g", kind, i, c, want[i])
			}
		}
	}
	for name, apart := range map[string]func(a, b Setup) bool{"setup": SameSetup, "instruction set": SameISA, "processor": sameCPU} {
		all, err := LeaveOut(r, apart)
		if err != nil {
			t.Fatal(err)
		}
		if b := BandOf(all); b.Steps != 24 || b.P95 > 0.15 {
			t.Errorf("%s left out: %+v", name, b)
		}
	}
	// An error of one machine that is left out shows in its steps alone.
	for i := range r.Ops {
		r.Ops[i].Times[0] *= 3
	}
	for i := range r.Steps {
		r.Steps[i].Times[0] *= 3
	}
	all, err := LeaveOut(r, SameSetup)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all[:4] {
		if x.Setup.String() != r.Setups[0].String() || math.Abs(x.Error()+2./3) > 0.02 {
			t.Errorf("%v: error %g, want -2/3", x.Setup, x.Error())
		}
	}
}

// TestRacesRoundTrip: what Write writes, ParseRaces reads, and setups that are added later meet known operations.
func TestRacesRoundTrip(t *testing.T) {
	want := syntheticRaces(t, map[string]Coefficients{"map/add": {moved: 1, start: 1}})
	var first, second bytes.Buffer
	if err := want.Write(&first); err != nil {
		t.Fatal(err)
	}
	got, err := ParseRaces(first.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("written again, races differ; error %v", err)
	}
	if len(got.Ops) != 80 || len(got.Steps) != 4 || len(got.Setups) != 6 {
		t.Errorf("%d operations, %d steps, %d setups", len(got.Ops), len(got.Steps), len(got.Setups))
	}
	if !slices.EqualFunc(got.Steps[1].Producers, chainOf(20), slices.Equal[[]int]) {
		t.Errorf("producers %v, want a chain", got.Steps[1].Producers)
	}
	// Operands of a program come from operations before their reader, and a step has no fewer operations than its program.
	for from, to := range map[string]string{"[[-1],[0]": "[[0],[0]", "[[-1],[0],": "[[-2],[0],", "[18]]": "[18],[19],[20]]"} {
		text := bytes.Replace(first.Bytes(), []byte(from), []byte(to), 1)
		if _, err := ParseRaces(text); err == nil || bytes.Equal(text, first.Bytes()) {
			t.Errorf("program with %s was read", to)
		}
	}
	// Measured again, less of each time and the better rates count.
	again := got.Setups[0]
	again.Rates.Products, again.Rates.L3 = 2*again.Rates.Products, again.Rates.L3/2
	o := got.Ops[0]
	o.Times = slices.Clone(o.Times)
	got.Add(again, []MeasuredStep{{Step: Step{Ops: []Work{o.Work}, Values: o.Values}, Network: "new", Phase: "train", Time: 1, OpTimes: []float64{o.Times[0] / 4}}})
	if got.Ops[0].Times[0] != o.Times[0]/4 || got.Ops[1].Times[0] == 0 || len(got.Setups) != 6 || len(got.Steps) != 5 || len(got.Ops) != 80 {
		t.Errorf("%d operations, %d steps, %d setups; first %+v", len(got.Ops), len(got.Steps), len(got.Setups), got.Ops[0])
	}
	if r, was := got.Setups[0].Machine.Rates[0], want.Setups[0].Rates; r.Products != 2*was.Products || r.L3 != was.L3 || r != got.Setups[0].Rates {
		t.Errorf("rates %+v, were %+v", r, was)
	}
	// Another processor with the same instruction set is a setup of its own, also if only its second cache tells.
	other := *again.Machine
	other.L2 *= 2
	again.Machine = &other
	got.Add(again, []MeasuredStep{{Step: Step{Ops: []Work{o.Work}, Values: o.Values}, Network: "new", Phase: "train", Time: 1, OpTimes: []float64{o.Times[0] / 8}}})
	if len(got.Setups) != 7 || got.Ops[0].Times[0] != o.Times[0]/4 || got.Ops[0].Times[6] != o.Times[0]/8 {
		t.Errorf("%d setups, times %v", len(got.Setups), got.Ops[0].Times)
	}
	for _, bad := range []string{"", "{}", `{"format": 2, "ops": [[0]]}`, `{"format": 2, "setups": [{"machine": 3}]}`, `{"format": 2, "kinds": ["a"], "ops": [[5, "", [], 0, []]]}`} {
		if _, err := ParseRaces([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestBand: quantiles and intervals by hand.
func TestBand(t *testing.T) {
	var all []Residual
	for i := range 20 { // errors of 1, −2, 3, … %
		all = append(all, Residual{Measured: 100, Predicted: 100 + float64(i+1)*float64(1-2*(i%2))})
	}
	b := BandOf(all)
	if b.Median != 0.1 || b.P95 != 0.19 || b.Steps != 20 {
		t.Errorf("%+v", b)
	}
	if low, high := (Band{P95: 0.25}).Interval(3); low != 2.4 || high != 4 {
		t.Errorf("%g to %g, want 2.4 to 4", low, high)
	}
	if _, high := (Band{P95: 1.5}).Interval(3); high != 0 {
		t.Errorf("upper end %g, want 0: unknown", high)
	}
}
