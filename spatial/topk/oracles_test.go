package topk

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Words of a rank for n = 6,000,000 and k = 60,000.
func TestVolume(t *testing.T) {
	for _, c := range []struct {
		p                                                    int
		dense, all, tree, dynamicLow, dynamicHigh, low, high float64
	}{
		{4, 9_000_000, 360_000, 480_000, 180_000, 4_590_000, 90_000, 270_000},
		{16, 11_250_000, 1_800_000, 960_000, 225_000, 5_737_500, 112_500, 337_500},
		{32, 11_625_000, 3_720_000, 1_200_000, 232_500, 5_928_750, 116_250, 348_750},
		{256, 11_953_125, 30_600_000, 1_920_000, 239_062, 6_096_094, 119_531, 358_594},
	} {
		for m, want := range map[Method][2]float64{Dense: {c.dense, c.dense}, AllGather: {c.all, c.all}, Tree: {c.tree, c.tree},
			Dynamic: {c.dynamicLow, c.dynamicHigh}, Regions: {c.low, c.high}} {
			least, most := Volume(m, 6_000_000, 60_000, c.p)
			if math.Abs(least-want[0]) > 0.5 || math.Abs(most-want[1]) > 0.5 {
				t.Errorf("method %d on %d ranks: %.1f to %.1f words, want %v", m, c.p, least, most, want)
			}
		}
	}
}

// worked has the non-zeros of the worked case: 4 ranks, 16 values, k = 4.
var worked = []map[int]float32{
	{0: .9, 3: -.1, 4: .2, 7: -.8, 9: .05, 10: .7, 14: .6},
	{0: .8, 2: .1, 5: -.9, 8: .6, 10: .7, 12: .05},
	{1: .3, 5: -.7, 7: -.6, 11: .9, 13: .5, 15: .1},
	{0: .7, 6: .4, 9: -.5, 10: .8, 14: .1},
}

// denseOf returns the vector of 16 values with these non-zeros.
func denseOf(nonZeros map[int]float32) comm.Parts[float32] {
	x := make([]float32, 16)
	for i, v := range nonZeros {
		x[i] = v
	}
	return comm.Parts[float32]{x[:5], x[5:]}
}

// near reports whether the entries are those of want, to rounding.
func near(e Entries, want map[int32]float32) bool {
	for j, i := range e.Index {
		if w, ok := want[i]; !ok || math.Abs(float64(w-e.Value[j])) > 1e-6 {
			return false
		}
	}
	return len(e.Index) == len(want) && slices.IsSorted(e.Index)
}

func TestWorkedCaseInSteps(t *testing.T) {
	selected := [][]int32{{0, 7, 10, 14}, {0, 5, 8, 10}, {5, 7, 11, 13}, {0, 6, 9, 10}}
	sent, received := []int64{6, 6, 8, 8}, []int64{8, 6, 8, 6}
	reduced := []map[int32]float32{{0: 2.4, 5: -1.6}, {6: .4, 7: -1.4, 8: .6}, {9: -.5, 10: 2.2}, {11: .9, 13: .5, 14: .6}}
	err := comm.Run(4, comm.Replay(1), func(c *comm.Comm) error {
		rank := c.Rank()
		r, err := New(16, Options{Density: 0.25})
		if err != nil {
			return err
		}
		r.state.Keep = r.keep
		r.accumulate(c, denseOf(worked[rank]))
		got := r.selectLocal()
		if !slices.Equal(got, selected[rank]) {
			return fmt.Errorf("selected %v", got)
		}
		if err := r.findRegions(c, got); err != nil {
			return err
		}
		if !slices.Equal(r.state.Bounds, []int64{0, 6, 9, 11, 16}) {
			return fmt.Errorf("regions %v", r.state.Bounds)
		}
		counts, err := r.exchangeCounts(c, got, -1)
		if err != nil {
			return err
		}
		var words int64
		for from, n := range counts {
			if from != rank {
				words += 2 * n
			}
		}
		before := c.GroupTraffic()
		if err := r.splitReduce(c, got, -1); err != nil {
			return err
		}
		if out := (c.GroupTraffic().Sub(before).Bytes - 3*8) / 4; out != sent[rank] || words != received[rank] {
			return fmt.Errorf("sent %d and received %d words", out, words)
		}
		var sums Entries
		r.owned.each(func(i int32, v float32) { sums.Index, sums.Value = append(sums.Index, i), append(sums.Value, v) })
		if !near(sums, reduced[rank]) {
			return fmt.Errorf("sums %v", sums)
		}
		_, kept, err := r.cut(c)
		if err != nil {
			return err
		}
		if math.Abs(float64(r.state.Global)-1.4) > 1e-6 || !slices.Equal(kept, []int{2, 1, 1, 0}) {
			return fmt.Errorf("threshold %g keeps %v", r.state.Global, kept)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkedCase(t *testing.T) {
	residuals := [][]int{{3, 4, 9, 14}, {2, 8, 12}, {1, 11, 13, 15}, {6, 9, 14}}
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		r, err := New(16, Options{Density: 0.25})
		if err != nil {
			return err
		}
		x := denseOf(worked[c.Rank()])
		u, err := r.Sum(c, x)
		if err != nil {
			return err
		}
		if !near(u, map[int32]float32{0: 2.4, 5: -1.6, 7: -1.4, 10: 2.2}) {
			return fmt.Errorf("result %v", u)
		}
		if x[0][0] != u.Value[0] || x[1][0] != u.Value[1] || x[1][9] != 0 || x[0][1] != 0 {
			return fmt.Errorf("dense result %v", x)
		}
		for i, e := range r.State().Residual {
			var want float32
			if slices.Contains(residuals[c.Rank()], i) {
				want = worked[c.Rank()][i]
			}
			if e != want {
				return fmt.Errorf("residual %d is %g, want %g", i, e, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rule computes sums as the definition says, by sorting and with all ranks in view.
type rule struct {
	k         int
	residuals [][]float32
}

// largest returns the indices of the k largest magnitudes, of equal ones the first.
func largest(k int, index []int, value func(i int) float32) []int {
	index = slices.Clone(index)
	slices.SortStableFunc(index, func(a, b int) int {
		return cmp.Compare(math.Abs(float64(value(b))), math.Abs(float64(value(a))))
	})
	index = index[:min(k, len(index))]
	slices.Sort(index)
	return index
}

// step returns the result of a step with the gradients x of all ranks.
func (d *rule) step(x [][]float32) map[int]float32 {
	sums, users := map[int]float32{}, map[int][]int{}
	for r, g := range x {
		var nonZero []int
		for i := range g {
			if d.residuals[r][i] += g[i]; d.residuals[r][i] != 0 {
				nonZero = append(nonZero, i)
			}
		}
		for _, i := range largest(d.k, nonZero, func(i int) float32 { return d.residuals[r][i] }) {
			sums[i] += d.residuals[r][i]
			users[i] = append(users[i], r)
		}
	}
	var index []int
	for i := range sums {
		index = append(index, i)
	}
	slices.Sort(index)
	u := map[int]float32{}
	for _, i := range largest(d.k, index, func(i int) float32 { return sums[i] }) {
		u[i] = sums[i]
		for _, r := range users[i] {
			d.residuals[r][i] = 0
		}
	}
	return u
}

// gradients returns random gradients of all ranks; whole ones have many ties and cancel.
func gradients(rng *rand.Rand, ranks, n int, whole bool) [][]float32 {
	x := make([][]float32, ranks)
	for r := range x {
		x[r] = make([]float32, n)
		for i := range x[r] {
			if x[r][i] = float32(rng.NormFloat64()); whole {
				x[r][i] = float32(rng.IntN(9) - 4)
			}
		}
	}
	return x
}

// With thresholds of each step, results and residuals have the bits of the definition, on
// any number of ranks and for every order of messages.
func TestSumFollowsItsDefinition(t *testing.T) {
	const n, steps = 211, 4
	for ranks := 1; ranks <= 9; ranks++ {
		for _, k := range []int{1, 3, 40} {
			for _, whole := range []bool{false, true} {
				d := &rule{k: k, residuals: gradients(rand.New(rand.NewPCG(1, 1)), ranks, n, true)}
				for _, e := range d.residuals {
					clear(e)
				}
				rng := rand.New(rand.NewPCG(uint64(ranks), uint64(k)))
				var x [steps][][]float32
				var want [steps]map[int]float32
				for s := range steps {
					x[s] = gradients(rng, ranks, n, whole)
					want[s] = d.step(x[s])
				}
				err := comm.Run(ranks, comm.Replay(rng.Uint64()), func(c *comm.Comm) error {
					r, err := New(n, Options{Density: float64(k) / n, ThresholdSteps: 1, RegionSteps: 3})
					for s := 0; err == nil && s < steps; s++ {
						var u Entries
						if u, err = r.Sum(c, comm.Parts[float32]{slices.Clone(x[s][c.Rank()])}); err != nil {
							return err
						}
						if len(u.Index) != len(want[s]) || !slices.IsSorted(u.Index) {
							return fmt.Errorf("step %d: %d entries %v, want %v", s, len(u.Index), u, want[s])
						}
						for j, i := range u.Index {
							if v, ok := want[s][int(i)]; !ok || v != u.Value[j] {
								return fmt.Errorf("step %d: entry %d is %g, want %v", s, i, u.Value[j], want[s])
							}
						}
					}
					if err == nil && !slices.Equal(r.State().Residual, d.residuals[c.Rank()]) {
						err = errors.New("the residual differs")
					}
					return err
				})
				if err != nil {
					t.Fatalf("%d ranks, k = %d, whole %v: %v", ranks, k, whole, err)
				}
			}
		}
	}
}

// collected gathers what ranks return.
type collected[T any] struct {
	mu sync.Mutex
	of map[int]T
}

func (a *collected[T]) put(rank int, v T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[int]T{}
	}
	a.of[rank] = v
}

// With density 1 the sum is that of all values in the order of ranks, and nothing stays.
func TestDensityOneIsTheDenseSum(t *testing.T) {
	const n = 300
	for _, ranks := range []int{1, 2, 3, 7, 8} {
		err := comm.Run(ranks, comm.Replay(uint64(ranks)), func(c *comm.Comm) error {
			r, err := New(n, Options{Density: 1})
			if err != nil {
				return err
			}
			for step := range 5 {
				x := gradients(rand.New(rand.NewPCG(uint64(step), 5)), ranks, n, step == 3)
				for i := range n {
					for rank := range x {
						x[rank][i] *= float32(math.Exp2(float64((i*7+rank*5+step)%40 - 20))) // sums depend on their order
					}
				}
				want := make([]float32, n)
				for _, g := range x {
					for i, v := range g {
						want[i] += v
					}
				}
				got := slices.Clone(x[c.Rank()])
				if _, err := r.Sum(c, comm.Parts[float32]{got}); err != nil {
					return err
				}
				if !slices.Equal(got, want) {
					return fmt.Errorf("step %d: sums differ from the dense ones", step)
				}
				if slices.ContainsFunc(r.State().Residual, func(e float32) bool { return e != 0 }) {
					return fmt.Errorf("step %d: something stays", step)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%d ranks: %v", ranks, err)
		}
	}
}
