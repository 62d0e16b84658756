package topk

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// runSteps runs a Reducer on ranks of a mode and returns the results of the last step and
// the states after it, by rank.
func runSteps(ranks, n, steps int, o Options, m comm.Mode, gradient func(rank, step int) []float32) (results []Entries, states []State, err error) {
	var all collected[Entries]
	var left collected[State]
	err = comm.Run(ranks, m, func(c *comm.Comm) error {
		r, err := New(n, o)
		for s := 0; err == nil && s < steps; s++ {
			var u Entries
			u, err = r.Sum(c, comm.Parts[float32]{gradient(c.Rank(), s)})
			all.put(c.Rank(), u)
		}
		left.put(c.Rank(), r.State())
		return err
	})
	for r := range ranks {
		results, states = append(results, all.of[r]), append(states, left.of[r])
	}
	return results, states, err
}

// The sum of residuals and results is the sum of all gradients, exactly for whole
// numbers; also in bfloat16, whose rounding stays in residuals. All ranks have the same
// result, and the order of messages changes nothing.
func TestNothingIsLost(t *testing.T) {
	const n, steps = 200, 20
	for _, ranks := range []int{1, 2, 5, 8} {
		for _, o := range []Options{{Density: 0.02}, {Density: 0.02, BFloat16: true}} {
			o.ThresholdSteps, o.RegionSteps = 8, 16
			gradient := func(rank, step int) []float32 {
				rng := rand.New(rand.NewPCG(uint64(rank), uint64(step)))
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.IntN(2001) - 1000)
				}
				return x
			}
			var first map[int]State
			for seed := range 2 {
				balance := make([]float64, n)
				for s := range steps {
					for r := range ranks {
						for i, v := range gradient(r, s) {
							balance[i] += float64(v)
						}
					}
				}
				var sums collected[[]float64]
				var left collected[State]
				err := comm.Run(ranks, comm.Replay(uint64(seed)), func(c *comm.Comm) error {
					r, err := New(n, o)
					applied := make([]float64, n)
					for s := 0; err == nil && s < steps; s++ {
						x := gradient(c.Rank(), s)
						_, err = r.Sum(c, comm.Parts[float32]{x})
						for i, v := range x {
							applied[i] += float64(v)
						}
					}
					sums.put(c.Rank(), applied)
					left.put(c.Rank(), r.State())
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				for r := range ranks {
					if !slices.Equal(sums.of[r], sums.of[0]) {
						t.Fatalf("ranks %d and 0 of %d differ", r, ranks)
					}
				}
				for i := range balance {
					all := sums.of[0][i]
					for _, s := range left.of {
						all += float64(s.Residual[i])
					}
					if all != balance[i] {
						t.Fatalf("%d ranks, bfloat16 %v: results and residuals of value %d are %g, gradients %g", ranks, o.BFloat16, i, all, balance[i])
					}
				}
				if first == nil {
					first = left.of
				}
				for r := range ranks {
					if !slices.Equal(left.of[r].Residual, first[r].Residual) || left.of[r].Local != first[r].Local {
						t.Fatalf("the order of messages changes rank %d of %d", r, ranks)
					}
				}
			}
		}
	}
}

// All entries in one region of equal length: the regions adapt, so that owners have equal
// shares, and the result is complete.
func TestRegionsFollowTheEntries(t *testing.T) {
	const n, ranks, k = 4000, 4, 100
	gradient := func(rank, step int) []float32 {
		x := make([]float32, n)
		rng := rand.New(rand.NewPCG(uint64(rank), uint64(step)))
		for i := range x[:n/10] {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	_, states, err := runSteps(ranks, n, 1, Options{Density: float64(k) / n}, comm.Parallel, gradient)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range states[0].Bounds[1:ranks] {
		if want := int64(n / 10 * (i + 1) / ranks); b < want-20 || b > want+20 {
			t.Errorf("boundary %d is %d, want about %d", i+1, b, want)
		}
	}
}

// If the sums that are kept move to one region, they are spread before they are gathered.
func TestUnevenSumsAreBalanced(t *testing.T) {
	const n, ranks = 1000, 8
	spread := func(rank, step int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(1 + (i*37+rank*11)%100)
			if step == 1 && i < n/ranks {
				x[i] = 1000 + float32(i)
			}
		}
		return x
	}
	o := Options{Density: 0.1, ThresholdSteps: 1}
	results, _, err := runSteps(ranks, n, 2, o, comm.Replay(3), spread)
	if err != nil {
		t.Fatal(err)
	}
	for r, u := range results {
		if len(u.Index) != 100 || !slices.IsSorted(u.Index) || u.Index[99] >= n/ranks {
			t.Fatalf("rank %d: %d entries up to %d", r, len(u.Index), u.Index[len(u.Index)-1])
		}
		if !slices.Equal(u.Index, results[0].Index) || !slices.Equal(u.Value, results[0].Value) {
			t.Fatalf("rank %d differs", r)
		}
	}
}

// Of equal magnitudes the first k are kept. Zeros are never sent, and a threshold that
// was found for zeros does not let everything pass later, nor one for large values nothing.
func TestTiesAndZeros(t *testing.T) {
	const n, k = 100, 7
	for _, ranks := range []int{1, 3, 4} {
		equal := func(rank, step int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(1 - 2*(i%2))
			}
			return x
		}
		results, _, err := runSteps(ranks, n, 1, Options{Density: k / 100.0}, comm.Parallel, equal)
		if err != nil || !slices.Equal(results[0].Index, []int32{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("%d ranks: equal magnitudes: %v, %v", ranks, results[0].Index, err)
		}
		zerosFirst := func(rank, step int) []float32 {
			if step == 0 {
				return make([]float32, n)
			}
			return gradients(rand.New(rand.NewPCG(uint64(rank), 2)), 1, n, false)[0]
		}
		results, states, err := runSteps(ranks, n, 1, Options{Density: k / 100.0}, comm.Parallel, zerosFirst)
		if err != nil || len(results[0].Index) != 0 || slices.Max(states[0].Residual) != 0 {
			t.Errorf("%d ranks: zeros: %v, %v", ranks, results[0], err)
		}
		// The k largest values are all new: none is near the former threshold.
		shrinking := func(rank, step int) []float32 {
			x := make([]float32, n)
			for i := range 2 * k {
				if step == 1 || i < k {
					x[i] = float32(i+1) * []float32{1000, 1}[step]
				}
			}
			return x
		}
		results, _, err = runSteps(ranks, n, 2, Options{Density: k / 100.0}, comm.Parallel, shrinking)
		if err != nil || !slices.Equal(results[0].Index, []int32{7, 8, 9, 10, 11, 12, 13}) || results[0].Value[6] != float32(14*ranks) {
			t.Errorf("%d ranks: shrinking gradients: %v, %v", ranks, results[0], err)
		}
		results, _, err = runSteps(ranks, n, 2, Options{Density: k / 100.0}, comm.Parallel, zerosFirst)
		if err != nil || len(results[0].Index) != k {
			t.Errorf("%d ranks: %d entries after zeros, want %d: %v", ranks, len(results[0].Index), k, err)
		}
	}
}

// Values that a mask sets to zero are never part of a message or a result, even if the
// density leaves room for them.
func TestMaskedValuesAreNotSent(t *testing.T) {
	const n, ranks = 400, 4
	gradient := func(rank, step int) []float32 {
		x := gradients(rand.New(rand.NewPCG(uint64(rank), uint64(step))), 1, n, false)[0]
		for i := range x {
			if i%4 != 0 {
				x[i] = 0
			}
		}
		return x
	}
	for _, density := range []float64{0.05, 0.5, 1} {
		var most collected[int]
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			r, err := New(n, Options{Density: density})
			selected := 0
			for s := 0; err == nil && s < 5; s++ {
				var u Entries
				u, err = r.Sum(c, comm.Parts[float32]{gradient(c.Rank(), s)})
				if slices.ContainsFunc(u.Index, func(i int32) bool { return i%4 != 0 }) {
					return errors.New("a masked value is in the result")
				}
				selected = max(selected, r.Last().Selected)
			}
			most.put(c.Rank(), selected)
			return err
		})
		if err != nil || most.of[0] > n/4 {
			t.Errorf("density %g: %d entries sent of %d live ones: %v", density, most.of[0], n/4, err)
		}
	}
}

// NaN and infinities, also of a residual that overflows and of a sum over ranks, are the
// same error on all ranks.
func TestNotFinite(t *testing.T) {
	const n = 90
	for name, c := range map[string]struct {
		spoil func(x []float32, rank, step int)
		steps int
		o     Options
		want  NotFiniteError
	}{
		"NaN":      {func(x []float32, rank, _ int) { put(rank == 2, x, 17, float32(math.NaN())) }, 1, Options{Density: 0.1}, NotFiniteError{2, 17, false}},
		"infinity": {func(x []float32, rank, _ int) { put(rank >= 1, x, 89, float32(math.Inf(-1))) }, 1, Options{Density: 0.1}, NotFiniteError{1, 89, false}},
		"later":    {func(x []float32, rank, s int) { put(rank == 0 && s == 3, x, 0, float32(math.NaN())) }, 4, Options{Density: 1}, NotFiniteError{0, 0, false}},
		"sum":      {func(x []float32, _, _ int) { put(true, x, 40, math.MaxFloat32) }, 1, Options{Density: 0.1}, NotFiniteError{1, 40, true}},
		"bfloat16": {func(x []float32, rank, _ int) { put(rank == 1, x, 5, math.MaxFloat32) }, 1, Options{Density: 0.1, BFloat16: true}, NotFiniteError{1, 5, false}},
		"moment":   {func(x []float32, rank, _ int) { put(rank == 1, x, 5, math.MaxFloat32/2) }, 1, Options{Density: 0.01, Updates: true}, NotFiniteError{1, 5, false}},
		"velocity": {func(x []float32, rank, _ int) { put(rank == 1, x, 5, math.MaxFloat32/2) }, 2, Options{Density: 0.01, Momentum: 0.9}, NotFiniteError{1, 5, false}},
	} {
		const ranks = 3
		var failures collected[error]
		_ = comm.Run(ranks, comm.Parallel, func(g *comm.Comm) error {
			r, err := New(n, c.o)
			for s := 0; err == nil && s < c.steps; s++ {
				x := gradients(rand.New(rand.NewPCG(uint64(g.Rank()), 9)), 1, n, false)[0]
				if name == "velocity" && g.Rank() == 0 {
					x[6] = math.MaxFloat32 // is sent instead
				}
				c.spoil(x, g.Rank(), s)
				_, err = r.Sum(g, comm.Parts[float32]{x})
			}
			failures.put(g.Rank(), err)
			return nil
		})
		for rank, err := range failures.of {
			var got *NotFiniteError
			if !errors.As(err, &got) || got.Rank != c.want.Rank || got.Index != c.want.Index || got.Sum != c.want.Sum {
				t.Errorf("%s, rank %d: error %v, want %+v", name, rank, err, c.want)
			}
		}
		if len(failures.of) != ranks {
			t.Errorf("%s: %d ranks ended", name, len(failures.of))
		}
	}
}

func put(where bool, x []float32, i int, v float32) {
	if where {
		x[i] = v
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, d := range []float64{0, -0.1, 1.01, math.NaN()} {
		if _, err := New(10, Options{Density: d}); err == nil {
			t.Errorf("density %g is accepted", d)
		}
	}
	if _, err := New(0, Options{Density: 1}); err == nil {
		t.Error("an empty vector is accepted")
	}
	r, _ := New(10, Options{Density: 1})
	if err := comm.Run(1, comm.Parallel, func(c *comm.Comm) error {
		_, err := r.Sum(c, comm.Parts[float32]{make([]float32, 9)})
		return err
	}); err == nil {
		t.Error("another length is accepted")
	}
}

// headerBytes returns the bytes of a step besides entries: counts for each destination,
// counts of kept sums, and four histograms and counts again if the global threshold is
// found. It sends such messages on the group.
func headerBytes(c *comm.Comm, searched bool) (int64, error) {
	before := c.GroupTraffic()
	p := int64(c.Size())
	header := 8*(p-1) + 24*(p-1)
	if searched {
		header += 24 * (p - 1)
		for range 4 {
			if err := comm.AllReduce(c, make([]int64, 256), comm.Auto); err != nil {
				return 0, err
			}
		}
	}
	return header + c.GroupTraffic().Sub(before).Bytes, nil
}

// A rank sends at most 6k'(P−1)/P words and the header, where k' is the actual count, in
// steps that do not find regions. Selected entries are spread evenly, and differ between
// ranks.
func TestVolumeOfBalancedInput(t *testing.T) {
	const n, density = 20000, 0.01
	for _, ranks := range []int{2, 3, 4, 8, 16} {
		var searched collected[int]
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			r, err := New(n, Options{Density: density})
			found := 0
			defer func() { searched.put(c.Rank(), found) }()
			for s := 0; err == nil && s < 40; s++ {
				x := gradients(rand.New(rand.NewPCG(uint64(c.Rank()), uint64(s))), 1, n, false)[0]
				if _, err = r.Sum(c, comm.Parts[float32]{x}); err != nil || s == 0 {
					continue
				}
				l := r.Last()
				header, err := headerBytes(c, l.SearchedGlobal)
				if err != nil {
					return err
				}
				if l.SearchedGlobal {
					found++
				}
				_, most := Volume(Regions, n, float64(max(l.Selected, l.Kept)), ranks)
				if words := float64(l.Bytes-header) / 4; words > most || words <= 0 {
					return fmt.Errorf("step %d: %g words for %d and %d entries, want at most %g", s, words, l.Selected, l.Kept, most)
				}
				if differs(int64(l.Selected), r.state.Keep, searchAt) || differs(int64(l.Kept), r.state.Keep, searchAt) {
					return fmt.Errorf("step %d: %d and %d entries, want %d within a tenth", s, l.Selected, l.Kept, r.state.Keep)
				}
			}
			return err
		})
		if err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
		t.Logf("%d ranks: %d of 39 steps found the global threshold", ranks, searched.of[0])
	}
}

// On virtual clusters the results are those of goroutines.
func TestCluster(t *testing.T) {
	const n, steps = 2048, 2
	gradient := func(rank, step int) []float32 {
		return gradients(rand.New(rand.NewPCG(uint64(rank), uint64(step))), 1, n, false)[0]
	}
	for _, ranks := range []int{4, 16, 256} {
		network, err := cluster.Ethernet(ranks, cluster.EthernetCable)
		if err != nil {
			t.Fatal(err)
		}
		wiring := cluster.Wiring{Topology: network, Alpha: cluster.Microsecond}
		var got collected[Entries]
		_, err = cluster.Run(ranks, cluster.Fluid{Wiring: wiring}, cluster.Options{}, func(c *cluster.Rank) error {
			r, err := New(n, Options{Density: 0.02})
			for s := 0; err == nil && s < steps; s++ {
				var u Entries
				u, err = r.Sum(c.Comm, comm.Parts[float32]{gradient(c.Rank(), s)})
				got.put(c.Rank(), u)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := got.of[0]
		if ranks < 256 {
			results, _, err := runSteps(ranks, n, steps, Options{Density: 0.02}, comm.Parallel, gradient)
			if err != nil {
				t.Fatal(err)
			}
			want = results[0]
		}
		if k := len(want.Index); k < 37 || k > 45 {
			t.Errorf("%d ranks: %d entries, want about 41", ranks, k)
		}
		for r := range ranks {
			if !slices.Equal(got.of[r].Index, want.Index) || !slices.Equal(got.of[r].Value, want.Value) {
				t.Errorf("rank %d of %d differs", r, ranks)
			}
		}
	}
}

// A Reducer that continues from a state has the bits of one that did not stop, at any
// step; also after a change of density.
func TestStateContinues(t *testing.T) {
	const n, ranks, steps = 300, 3, 40
	gradient := func(rank, step int) []float32 {
		return gradients(rand.New(rand.NewPCG(uint64(rank), uint64(step))), 1, n, false)[0]
	}
	densityOf := func(step int) float64 { return map[bool]float64{true: 0.1, false: 0.03}[step < 20] }
	for _, o := range []Options{{Density: 0.1}, {Density: 0.1, BFloat16: true, Momentum: 0.9, Clip: 3}, {Density: 0.1, Updates: true}} {
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			r, err := New(n, o)
			if err != nil {
				return err
			}
			for s := range steps {
				other, err := New(n, o)
				if err == nil {
					err = other.SetState(r.State())
				}
				if err != nil {
					return err
				}
				var u [2]Entries
				for i, q := range []*Reducer{r, other} {
					if err = q.SetDensity(densityOf(s)); err != nil {
						return err
					}
					q.SetRate(0.01)
					if u[i], err = q.Sum(c, comm.Parts[float32]{gradient(c.Rank(), s)}); err != nil {
						return err
					}
				}
				a, b := r.State(), other.State()
				if !slices.Equal(u[0].Value, u[1].Value) || !slices.Equal(a.Residual, b.Residual) || !slices.Equal(a.Velocity, b.Velocity) || !slices.Equal(a.Squares, b.Squares) ||
					a.Local != b.Local || a.Global != b.Global || a.Step != b.Step || a.Keep != b.Keep || !slices.Equal(a.Bounds, b.Bounds) {
					return fmt.Errorf("step %d differs", s)
				}
				if s == 20 && len(u[0].Index) != 9 {
					return fmt.Errorf("%d entries after the density fell to 9 of 300", len(u[0].Index))
				}
			}
			plain, _ := New(n, Options{Density: 0.1})
			if o.Momentum > 0 && plain.SetState(r.State()) == nil {
				return errors.New("a state with velocities is accepted without momentum")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// drift measures how far the counts are from k over steps in which gradients change
// slowly: the means over steps of |k' − k|/k of selected and of kept entries.
func drift(t *testing.T, n, ranks, steps int, density float64) (local, global float64) {
	t.Helper()
	k := math.Round(density * float64(n))
	var errs collected[[2]float64]
	err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
		r, err := New(n, Options{Density: density})
		if err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(uint64(c.Rank()), 77))
		size, slow := make([]float64, n), make([]float64, n)
		for i := range size {
			size[i], slow[i] = math.Exp(1.5*rng.NormFloat64()), rng.NormFloat64()
		}
		var sum [2]float64
		x := make([]float32, n)
		for s := range steps {
			scale := math.Exp(-3 * float64(s) / float64(steps)) // gradients fall by a factor of 20
			for i := range x {
				slow[i] = 0.98*slow[i] + 0.2*rng.NormFloat64() // correlated over about 50 steps
				x[i] = float32(scale * size[i] * (slow[i] + 0.5*rng.NormFloat64()))
			}
			if _, err := r.Sum(c, comm.Parts[float32]{x}); err != nil {
				return err
			}
			sum[0] += math.Abs(float64(r.Last().Selected)-k) / k / float64(steps)
			sum[1] += math.Abs(float64(r.Last().Kept)-k) / k / float64(steps)
		}
		errs.put(c.Rank(), sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range errs.of {
		local, global = max(local, e[0]), max(global, e[1])
	}
	return local, global
}

// Counts stay within a tenth of k in the mean.
func TestCountsOfSlowGradients(t *testing.T) {
	for _, density := range []float64{0.01, 0.05} {
		local, global := drift(t, 5000, 4, 130, density)
		t.Logf("density %g: mean error of counts %.3f selected, %.3f kept", density, local, global)
		if local > 0.1 || global > 0.1 {
			t.Errorf("density %g: mean error of counts %.3f selected, %.3f kept, want at most 0.1", density, local, global)
		}
	}
}
