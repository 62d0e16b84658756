package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sums returns the cost of each rank.
func sums(costs []int64, owner []int, ranks int) []int64 {
	load := make([]int64, ranks)
	for i, r := range owner {
		load[r] += costs[i]
	}
	return load
}

// blocks returns the cost of each block.
func blocks(costs []int64, cuts []int) []int64 {
	var load []int64
	for k, to := range cuts[1:] {
		sum := int64(0)
		for _, c := range costs[cuts[k]:to] {
			sum += c
		}
		load = append(load, sum)
	}
	return load
}

// roundRobin gives item i to rank i mod ranks.
func roundRobin(n, ranks int) []int {
	owner := make([]int, n)
	for i := range owner {
		owner[i] = i % ranks
	}
	return owner
}

// imbalance is the largest load over LowerBound, and over the mean load.
func imbalance(costs, load []int64) (ofBound, ofMean float64) {
	sum := int64(0)
	for _, c := range load {
		sum += c
	}
	most := float64(slices.Max(load))
	return most / float64(LowerBound(costs, len(load))), most * float64(len(load)) / float64(sum)
}

// The loads of ten pairs of shells with costs 1 to 10, and the worst case of the rule.
func TestLongestFirstExamples(t *testing.T) {
	ten := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		costs []int64
		ranks int
		want  []int64
	}{
		{ten, 2, []int64{28, 27}},
		{ten, 4, []int64{15, 14, 13, 13}},
		{[]int64{5, 5, 4, 4, 3, 3, 3}, 3, []int64{11, 8, 8}},
		{[]int64{7}, 3, []int64{7, 0, 0}},
		{[]int64{1, 1, 100, 1}, 2, []int64{100, 3}},
		{nil, 2, []int64{0, 0}},
	} {
		load := sums(c.costs, LongestFirst(c.costs, c.ranks), c.ranks)
		slices.SortFunc(load, func(a, b int64) int { return int(b - a) })
		if !slices.Equal(load, c.want) {
			t.Errorf("%v on %d ranks: loads %v, want %v", c.costs, c.ranks, load, c.want)
		}
	}
	if got := sums([]int64{1, 1, 1, 1, 1}, LongestFirst(make([]int64, 5), 2), 2); !slices.Equal(got, []int64{3, 2}) {
		t.Errorf("items without cost: %v a rank", got)
	}
}

// The largest load is within 4/3 − 1/(3P) of the least possible one, found by trying all distributions, and belongs to the
// costs and not to their order.
func TestLongestFirstBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		ranks, costs := 1+rng.IntN(3), make([]int64, 1+rng.IntN(10))
		for i := range costs {
			costs[i] = rng.Int64N(30)
		}
		got := slices.Max(sums(costs, LongestFirst(costs, ranks), ranks))
		least := int64(math.MaxInt64)
		load := make([]int64, ranks)
		var place func(i int)
		place = func(i int) {
			if i == len(costs) {
				least = min(least, slices.Max(load))
				return
			}
			for r := range ranks {
				load[r] += costs[i]
				place(i + 1)
				load[r] -= costs[i]
			}
		}
		place(0)
		if 3*int64(ranks)*got > (4*int64(ranks)-1)*least || got < least {
			t.Errorf("%v on %d ranks: largest load %d, least possible %d", costs, ranks, got, least)
		}
		if better := slices.Max(sums(costs, Assign(costs, ranks), ranks)); better > got || better < least {
			t.Errorf("%v on %d ranks: largest load %d after exchanges, %d before, least possible %d", costs, ranks, better, got, least)
		}
		if bound := LowerBound(costs, ranks); bound > least {
			t.Errorf("%v on %d ranks: lower bound %d, least possible load %d", costs, ranks, bound, least)
		}
		rng.Shuffle(len(costs), func(i, j int) { costs[i], costs[j] = costs[j], costs[i] })
		if other := slices.Max(sums(costs, LongestFirst(costs, ranks), ranks)); other != got {
			t.Errorf("%v on %d ranks: largest load %d, in another order %d", costs, ranks, other, got)
		}
	}
}

// Blocks of a published example, with the lexicographically smallest cuts.
func TestContiguousExamples(t *testing.T) {
	costs := []int64{1, 1, 2, 3, 4, 4, 4, 3, 2, 1, 1}
	for _, c := range []struct {
		costs []int64
		parts int
		want  []int
		most  int64
	}{
		{costs, 2, []int{0, 5, 11}, 15},
		{costs, 3, []int{0, 3, 6, 11}, 11},
		{costs, 4, []int{0, 3, 5, 7, 11}, 8},
		{[]int64{9, 1}, 3, []int{0, 0, 1, 2}, 9},
		{[]int64{0, 0}, 2, []int{0, 0, 2}, 0},
		{nil, 2, []int{0, 0, 0}, 0},
	} {
		if got := Contiguous(c.costs, c.parts); !slices.Equal(got, c.want) || slices.Max(blocks(c.costs, got)) != c.most {
			t.Errorf("%v in %d parts: cuts %v, want %v with the largest %d", c.costs, c.parts, got, c.want, c.most)
		}
	}
	if equal := blocks(costs, []int{0, 2, 5, 8, 11}); !slices.Equal(equal, []int64{2, 9, 11, 4}) {
		t.Errorf("equal numbers: %v", equal)
	}
	units := slices.Repeat([]int64{1}, 22)
	for parts, want := range map[int][]int64{4: {4, 6, 6, 6}, 8: {1, 3, 3, 3, 3, 3, 3, 3}} {
		if got := blocks(units, Contiguous(units, parts)); !slices.Equal(got, want) {
			t.Errorf("22 units in %d parts: %v", parts, got)
		}
	}
}

// The largest block is the least possible, found by trying all cuts.
func TestContiguousOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 1000 {
		parts, costs := 1+rng.IntN(4), make([]int64, 1+rng.IntN(12))
		for i := range costs {
			costs[i] = rng.Int64N(12)
		}
		cuts := Contiguous(costs, parts)
		if len(cuts) != parts+1 || cuts[0] != 0 || cuts[parts] != len(costs) || !slices.IsSorted(cuts) {
			t.Fatalf("%v in %d parts: cuts %v", costs, parts, cuts)
		}
		least := int64(math.MaxInt64)
		var first []int
		try := make([]int, parts+1)
		try[parts] = len(costs)
		var place func(k int)
		place = func(k int) {
			if k == parts {
				if most := slices.Max(blocks(costs, try)); most < least {
					least, first = most, slices.Clone(try)
				}
				return
			}
			for at := try[k-1]; at <= len(costs); at++ {
				try[k] = at
				place(k + 1)
			}
		}
		place(1)
		if !slices.Equal(cuts, first) {
			t.Errorf("%v in %d parts: cuts %v with the largest %d, want %v with %d", costs, parts, cuts, slices.Max(blocks(costs, cuts)), first, least)
		}
	}
}

// Blocks with costs of what crosses their bounds are the best of all, and the lexicographically first of these; without such
// costs their largest is that of Contiguous.
func TestContiguousCrossingOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		m := 1 + rng.IntN(9)
		parts, costs, crossing := 1+rng.IntN(min(m, 4)), make([]int64, m), make([]int64, m)
		for i := range costs {
			costs[i], crossing[i] = rng.Int64N(12), rng.Int64N(8)
		}
		least, first := int64(math.MaxInt64), []int(nil)
		try := make([]int, parts+1)
		try[parts] = m
		var place func(k int)
		place = func(k int) {
			if k == parts {
				if try[k-1] == m {
					return
				}
				loads := blocks(costs, try)
				for b := range loads {
					if b > 0 {
						loads[b] += crossing[try[b]]
					}
					if b < parts-1 {
						loads[b] += crossing[try[b+1]]
					}
				}
				if most := slices.Max(loads); most < least {
					least, first = most, slices.Clone(try)
				}
				return
			}
			for at := try[k-1] + 1; at < m; at++ {
				try[k] = at
				place(k + 1)
			}
		}
		place(1)
		if cuts := ContiguousCrossing(costs, crossing, parts); !slices.Equal(cuts, first) {
			t.Errorf("%v crossed by %v in %d parts: cuts %v, want %v with %d", costs, crossing, parts, cuts, first, least)
		}
		free := ContiguousCrossing(costs, make([]int64, m), parts)
		if got, want := slices.Max(blocks(costs, free)), slices.Max(blocks(costs, Contiguous(costs, parts))); got != want {
			t.Errorf("%v in %d parts: %d without crossing, Contiguous has %d", costs, parts, got, want)
		}
	}
}

// The bound is the mean, the largest cost, or what one rank has of a number of items that exceeds a multiple of the ranks.
func TestLowerBound(t *testing.T) {
	for _, c := range []struct {
		costs []int64
		ranks int
		want  int64
	}{
		{[]int64{4, 4, 4, 3}, 5, 4},
		{[]int64{9, 1, 1, 1}, 2, 9},
		{[]int64{5, 5, 5, 1}, 2, 10},            // three 5 on two ranks
		{[]int64{3, 3, 3, 3, 3, 0, 0, 0}, 2, 9}, // five 3 on two ranks
		{[]int64{2, 2, 2, 1}, 3, 3},             // the mean is 2⅓
		{nil, 3, 0},
	} {
		if got := LowerBound(c.costs, c.ranks); got != c.want {
			t.Errorf("%v on %d ranks: %d, want %d", c.costs, c.ranks, got, c.want)
		}
	}
}

// Ranks with few items divide them in the best way, those with many exchange one for one.
func TestAssignExamples(t *testing.T) {
	even := make([]int64, 40) // 20 to 59, LongestFirst has 800 and 780
	for i := range even {
		even[i] = int64(20 + i)
	}
	for _, c := range []struct {
		costs []int64
		ranks int
		most  int64
	}{
		{[]int64{5, 5, 4, 4, 3, 3, 3}, 3, 9}, // LongestFirst has 11
		{[]int64{3, 3, 2, 2, 2}, 2, 6},       // LongestFirst has 7
		{[]int64{8, 7, 6, 5, 4}, 2, 15},      // LongestFirst has 17
		{even, 2, 790},
		{append(slices.Repeat([]int64{2}, 20), 1, 1, 1000), 2, 1000},
	} {
		if got := slices.Max(sums(c.costs, Assign(c.costs, c.ranks), c.ranks)); got != c.most {
			t.Errorf("%v on %d ranks: largest load %d, want %d", c.costs, c.ranks, got, c.most)
		}
	}
}

// 200 files of lognormal size: the slowest rank has at most 5 % more than the lower bound, where round robin has more. σ is the
// standard deviation of the logarithm of sizes. On 64 ranks, with three files each, the rule of the longest processing time alone is
// 17 % above. From 0.5 on the largest file exceeds the mean load of 64 ranks in some or all samples.
func TestFilesOfLognormalSize(t *testing.T) {
	const files = 200
	for _, ranks := range []int{4, 64} {
		for _, sigma := range []float64{0.25, 0.35, 0.5, 0.75, 1, 2} {
			t.Run(fmt.Sprintf("sigma %g, %d ranks", sigma, ranks), func(t *testing.T) {
				var mean, bound float64
				least, most := math.Inf(1), 0.0 // of round robin
				for seed := range uint64(20) {
					rng := rand.New(rand.NewPCG(seed, 3))
					costs := make([]int64, files)
					for i := range costs {
						costs[i] = int64(1e8 * math.Exp(sigma*rng.NormFloat64()))
					}
					got, ofMean := imbalance(costs, sums(costs, Assign(costs, ranks), ranks))
					before, beforeOfMean := imbalance(costs, sums(costs, roundRobin(files, ranks), ranks))
					if got > 1.05 || got > before {
						t.Errorf("seed %d: %.4f of the bound, round robin %.3f", seed, got, before)
					}
					mean, bound = max(mean, ofMean), max(bound, got)
					least, most = min(least, beforeOfMean), max(most, beforeOfMean)
				}
				t.Logf("slowest over mean %.3f, over bound %.3f; round robin over mean %.2f to %.2f", mean, bound, least, most)
			})
		}
	}
}

// Items are ordered by cost, and equal ones by index.
func TestDescending(t *testing.T) {
	if got := Descending([]int64{3, 9, 3, 0, 9}); !slices.Equal(got, []int{1, 4, 0, 2, 3}) {
		t.Errorf("order %v", got)
	}
}

func BenchmarkAssign(b *testing.B) {
	rng := rand.New(rand.NewPCG(0, 3))
	costs := make([]int64, 200)
	for i := range costs {
		costs[i] = int64(1e8 * math.Exp(0.35*rng.NormFloat64()))
	}
	for b.Loop() {
		Assign(costs, 64)
	}
}

func BenchmarkMillion(b *testing.B) {
	rng := rand.New(rand.NewPCG(4, 4))
	costs := make([]int64, 1_000_000)
	for i := range costs {
		costs[i] = rng.Int64N(1 << 30)
	}
	b.Run("LongestFirst", func(b *testing.B) {
		for b.Loop() {
			LongestFirst(costs, 64)
		}
	})
	b.Run("Contiguous", func(b *testing.B) {
		for b.Loop() {
			Contiguous(costs, 64)
		}
	})
}
