package offload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// link is a machine with the same copy rate in both directions.
func link(memory, rate float64) Machine { return Machine{Memory: memory, ToHost: rate, FromHost: rate} }

// uniform is the network of the reference cases O1 and O2.
var uniform = slices.Repeat([]Block{{Forward: 1, Backward: 2, Interior: 4}}, 6)

// unet is the network of the reference case O3.
var unet = []Block{{4, 8, 16}, {3, 6, 8}, {2, 4, 4}, {2, 4, 2}, {3, 6, 6}, {4, 8, 12}, {5, 10, 20}}

// TestOracles compares with the values of the specification, which an
// independent program found by enumerating all plans.
func TestOracles(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks []Block
		m      Machine
		plan   string
		// makespans of the best plan, the best without R, the best without S, of
		// all S and of all R; 0 is not checked
		best, noR, noS, allS, allR float64
	}{
		{"O1, rate 4", uniform, link(12, 4), "KSSSKK", 18, 18, 21, 20, 24},
		{"O1, rate 2", uniform, link(12, 2), "SKSRKK", 19, 20, 21, 27, 24},
		{"O1, rate 1", uniform, link(12, 1), "SKRRKK", 20, 30, 21, 51, 24},
		{"O1, rate 1/2", uniform, link(12, 0.5), "KKRRRK", 21, 54, 21, 99, 24},
		{"O2", uniform, link(8, 2), "SRSRKK", 20, 22, 22, 0, 0},
		{"O3, rate 4", unet, link(40, 4), "SSKKSKK", 69, 0, 77, 79, 92},
		{"O3, rate 2", unet, link(40, 2), "SSSKKKK", 69, 0, 77, 94, 92},
	} {
		plan, run, ok := Search(c.blocks, c.m, "KRS")
		if !ok || plan != c.plan || run.Makespan != c.best {
			t.Errorf("%s: plan %s of %v, want %s of %v", c.name, plan, run.Makespan, c.plan, c.best)
		}
		if _, ok := Simulate(c.blocks, c.m, strings.Repeat("K", len(c.blocks))); ok {
			t.Errorf("%s: all K fits, and must not", c.name)
		}
		for letters, want := range map[string]float64{"KS": c.noR, "KR": c.noS, "S": c.allS, "R": c.allR} {
			if _, run, ok := Search(c.blocks, c.m, letters); want > 0 && (!ok || run.Makespan != want) {
				t.Errorf("%s: best of letters %s is %v, want %v", c.name, letters, run.Makespan, want)
			}
		}
	}
	if plan, _, _ := Search(unet, link(40, 4), "KR"); plan != "RKKKKRK" {
		t.Errorf("O3 without S: plan %s, want RKKKKRK", plan)
	}
	if run, _ := Simulate(unet, link(40, 4), "SSKKSKK"); run.Peak != 38 {
		t.Errorf("O3, rate 4: peak %v, want 38", run.Peak)
	}
	if run, _ := Simulate(unet, link(40, 2), "SSSKKKK"); run.Peak != 40 {
		t.Errorf("O3, rate 2: peak %v, want 40", run.Peak)
	}
}

// TestIntervals checks the time intervals of the blocks of O1 at rate 2.
func TestIntervals(t *testing.T) {
	run, ok := Simulate(uniform, link(12, 2), "SKSRKK")
	want := []Span{{17, 19}, {15, 17}, {13, 15}, {10, 13}, {8, 10}, {6, 8}}
	if !ok || !slices.Equal(run.Backward, want) {
		t.Errorf("backward passes in %v, want %v", run.Backward, want)
	}
	if ideal(uniform) != 18 {
		t.Errorf("ideal time %v, want 18", ideal(uniform))
	}
}

// random draws blocks with small integers, so that ties are frequent.
func random(r *rand.Rand, n int) []Block {
	blocks := make([]Block, n)
	for i := range blocks {
		blocks[i] = Block{float64(1 + r.IntN(4)), float64(1 + r.IntN(6)), float64(1 + r.IntN(9))}
	}
	return blocks
}

// TestExhaustive verifies that the pruned enumeration finds the plan that a
// full enumeration finds.
func TestExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		blocks := random(r, 6)
		m := link(float64(9+r.IntN(20)), []float64{0.5, 1, 2, 4}[r.IntN(4)])
		s := search{blocks: blocks, m: m}
		for code := range 729 {
			plan := make([]byte, 6)
			for i := range plan {
				plan[i] = "KRS"[code%3]
				code /= 3
			}
			s.try(string(plan))
		}
		plan, run, _ := Search(blocks, m, "KRS")
		if plan != s.best || run.Makespan != s.timeline.Makespan {
			t.Errorf("%v on %v: plan %q of %v, want %q of %v", blocks, m, plan, run.Makespan, s.best, s.timeline.Makespan)
		}
	}
}

// TestProperties verifies properties of optimal plans: more memory, faster
// copies and more letters never increase the time; no plan exceeds the memory;
// infinite copy rates give the ideal time if everything fits; and rates of zero
// give the best time without swapping.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	best := func(b []Block, m Machine, letters string) float64 {
		_, run, ok := Search(b, m, letters)
		if !ok {
			return math.Inf(1)
		}
		if run.Peak > m.Memory {
			t.Errorf("%v on %v: peak %v", b, m, run.Peak)
		}
		return run.Makespan
	}
	for range 25 {
		b := random(r, 5)
		what := fmt.Sprint(b)
		var sum, largest float64
		for _, x := range b {
			sum += x.Interior
			largest = max(largest, x.Interior)
		}
		for _, rate := range []float64{0.5, 1, 3} {
			last := math.Inf(1)
			for memory := largest; memory <= sum; memory++ {
				now := best(b, link(memory, rate), "KRS")
				if now > last {
					t.Errorf("%s, rate %v: memory %v takes %v, one less %v", what, rate, memory, now, last)
				}
				last = now
				if a, c := best(b, link(memory, rate), "KS"), best(b, link(memory, rate), "KR"); now > min(a, c) {
					t.Errorf("%s, rate %v, memory %v: %v, but %v without R and %v without S", what, rate, memory, now, a, c)
				}
			}
			if last != ideal(b) {
				t.Errorf("%s: %v with memory for all, want %v", what, last, ideal(b))
			}
		}
		memory := math.Floor((largest + sum) / 2)
		last := math.Inf(1)
		for _, rate := range []float64{1e-9, 0.25, 0.5, 1, 2, 4, 1e12} {
			now := best(b, link(memory, rate), "KRS")
			if now > last {
				t.Errorf("%s, memory %v: rate %v takes %v, a slower one %v", what, memory, rate, now, last)
			}
			last = now
		}
		if slow, none := best(b, link(memory, 1e-9), "KRS"), best(b, Machine{Memory: memory}, "KRS"); slow != none || none != best(b, link(memory, 9), "KR") {
			t.Errorf("%s: %v over a link without speed, %v without a link", what, slow, none)
		}
		// at an infinite rate copies take no time, so the forward pass never waits
		if last-ideal(b) > 1e-6 {
			t.Errorf("%s: %v over an endless link, want %v", what, last, ideal(b))
		}
	}
}

// TestBeam verifies that the beam search is close to the optimum on sizes that
// can be enumerated.
func TestBeam(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	worst := 1.0
	for range 30 {
		b := random(r, 9)
		m := link(float64(12+r.IntN(20)), []float64{0.5, 1, 2, 4}[r.IntN(4)])
		_, want, ok := Search(b, m, "KRS")
		s := search{blocks: b, m: m, letters: "KRS"}
		s.beam()
		s.hillClimb()
		if ok != (s.best != "") {
			t.Fatalf("%v on %v: found %q, want one: %v", b, m, s.best, ok)
		}
		worst = max(worst, s.timeline.Makespan/want.Makespan)
	}
	// one unit of the shortest makespan here, about 50
	if worst > 1.02 {
		t.Errorf("a plan takes %v of the best one's time", worst)
	}
}

// TestMany covers forty equal blocks that do not fit together, whose optimal
// plan without swapping is known: as many as fit are kept, the others are
// recomputed.
func TestMany(t *testing.T) {
	b := slices.Repeat([]Block{{Forward: 1, Backward: 2, Interior: 4}}, 40)
	plan, run, ok := Search(b, Machine{Memory: 64}, "KR")
	if !ok || run.Makespan != 120+24 {
		t.Errorf("plan %s of %v, want 144: 16 of 40 fit, the last of which may leave first", plan, run.Makespan)
	}
	if _, _, ok := Search(b, Machine{Memory: 3}, "KR"); ok {
		t.Error("a block of 4 bytes fits into 3")
	}
}

// TestRefusals covers plans that no machine can run.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, plan string
		m          Machine
	}{
		{"an interior larger than the memory", "R", link(3, 1)},
		{"a swap without a link", "S", Machine{Memory: 9}},
	} {
		if run, ok := Simulate(uniform[:1], c.m, c.plan); ok {
			t.Errorf("%s: %+v", c.name, run)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name string
		live []float64
		n    int
		want []int
	}{
		{"levels of a U-Net", []float64{9, 9, 4, 7, 2, 5, 5, 8, 6, 9}, 9, []int{3, 5, 9}},
		{"the two best of three", []float64{9, 9, 4, 7, 2, 5, 5, 8, 6, 9}, 3, []int{3, 5}},
		{"one block", []float64{9, 4, 9}, 1, nil},
		{"a level stretch is cut at its beginning", []float64{8, 3, 3, 3, 9}, 5, []int{2}},
		{"falling to the end", []float64{8, 5, 2}, 5, []int{3}},
		{"no step", nil, 5, nil},
	} {
		if got := CutPoints(c.live, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: cuts %v, want %v", c.name, got, c.want)
		}
	}
}

func ExampleSearch() {
	// six equal blocks, three of which fit; copies are half as fast as needed
	blocks := slices.Repeat([]Block{{Forward: 1, Backward: 2, Interior: 4}}, 6)
	plan, run, _ := Search(blocks, Machine{Memory: 12, ToHost: 2, FromHost: 2}, "KRS")
	fmt.Println(plan, run.Makespan, "of at least", ideal(blocks))
	// Output: SKSRKK 19 of at least 18
}

// ideal is the time of a step in unlimited memory: the sum of all forward and
// backward times.
func ideal(blocks []Block) float64 {
	var t float64
	for _, b := range blocks {
		t += b.Forward + b.Backward
	}
	return t
}
