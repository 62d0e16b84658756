package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// random returns a small kernel with many ties: few different times and
// workspaces, sizes in any order, some listed twice. Size 1 is always present,
// but not always without workspace.
func random(rng *rand.Rand) Kernel {
	k := Kernel{Name: "random", Size: 1 + rng.IntN(7)}
	for i := range 1 + rng.IntN(7) {
		m := Micro{Size: 1 + rng.IntN(5), Algorithm: fmt.Sprint("a", i), Time: time.Duration(rng.IntN(6)), Bytes: int64(rng.IntN(5))}
		if i == 0 {
			m.Size = 1
		}
		k.Micros = append(k.Micros, m)
	}
	rng.Shuffle(len(k.Micros), func(i, j int) { k.Micros[i], k.Micros[j] = k.Micros[j], k.Micros[i] })
	return k
}

// every lists all configurations: all multisets of micro-configurations.
func every(k Kernel) (all [][]int) {
	var walk func(from, rest int, chosen []int)
	walk = func(from, rest int, chosen []int) {
		if rest == 0 {
			all = append(all, slices.Clone(chosen))
		}
		for i := from; i < len(k.Micros) && rest > 0; i++ {
			if b := k.Micros[i].Size; b <= rest {
				walk(i, rest-b, append(chosen, i))
			}
		}
	}
	walk(0, k.Size, nil)
	return all
}

// rank returns the tie-breaking rule as a list of numbers; less is better.
func rank(k Kernel, chosen []int) []int {
	slices.SortFunc(chosen, func(i, j int) int {
		a, b := k.Micros[i], k.Micros[j]
		return cmp.Or(b.Size-a.Size, int(a.Time-b.Time), int(a.Bytes-b.Bytes), i-j)
	})
	var t, w int
	var sizes, algorithms []int
	for _, i := range chosen {
		m := k.Micros[i]
		t += int(m.Time)
		w = max(w, int(m.Bytes))
		sizes = append(sizes, -m.Size)
		algorithms = append(algorithms, int(m.Time), int(m.Bytes), i)
	}
	return slices.Concat([]int{t, w, len(chosen)}, sizes, algorithms)
}

// optimum is the best configuration within limit by enumeration, or nil.
func optimum(k Kernel, limit int) (rankOf []int) {
	for _, c := range every(k) {
		if r := rank(k, c); r[1] <= limit && (rankOf == nil || slices.Compare(r, rankOf) < 0) {
			rankOf = r
		}
	}
	return rankOf
}

// rankOf is the rank of a solver's result.
func rankOf(t *testing.T, k Kernel, c Config) []int {
	t.Helper()
	var chosen []int
	for _, p := range c.Pieces {
		i := slices.Index(k.Micros, p.Micro)
		if i < 0 || p.Count < 1 {
			t.Fatalf("%+v is not among %+v", p, k.Micros)
		}
		chosen = append(chosen, slices.Repeat([]int{i}, p.Count)...)
	}
	r := rank(k, chosen)
	if r[0] != int(c.Time) || r[1] != int(c.Bytes) || r[2] != c.Count() {
		t.Fatalf("%+v says %v, %d bytes, %d pieces; its pieces say %v", c, c.Time, c.Bytes, c.Count(), r[:3])
	}
	return r
}

// TestReuseExhaustive compares with the enumeration of all configurations, ties
// included.
func TestReuseExhaustive(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	for range 2000 {
		k := random(rng)
		last := time.Duration(math.MaxInt64)
		for limit := range 6 {
			want := optimum(k, limit)
			got, err := k.Reuse(int64(limit))
			if want == nil {
				if !errors.Is(err, ErrLimit) {
					t.Fatalf("%+v, limit %d: %+v, %v, want ErrLimit", k, limit, got, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%+v, limit %d: %v", k, limit, err)
			}
			if r := rankOf(t, k, got); !slices.Equal(r, want) {
				t.Fatalf("%+v, limit %d: %v is %v, want %v", k, limit, got, r, want)
			}
			if got.Time > last {
				t.Fatalf("%+v, limit %d: %v, but %v with less workspace", k, limit, got.Time, last)
			}
			last = got.Time
		}
	}
}

// desirable is the recursion of the paper over sets of (time, workspace).
func desirable(k Kernel) [][2]int64 {
	d := make([][][2]int64, k.Size+1)
	d[0] = [][2]int64{{}}
	for n := 1; n <= k.Size; n++ {
		var all [][2]int64
		for _, m := range k.Micros {
			if m.Size > n {
				continue
			}
			for _, c := range d[n-m.Size] {
				all = append(all, [2]int64{c[0] + int64(m.Time), max(c[1], m.Bytes)})
			}
		}
		for _, c := range all {
			beaten := func(o [2]int64) bool { return o[0] <= c[0] && o[1] <= c[1] && o != c }
			if !slices.ContainsFunc(all, beaten) && !slices.Contains(d[n], c) {
				d[n] = append(d[n], c)
			}
		}
	}
	front := d[k.Size]
	slices.SortFunc(front, func(a, b [2]int64) int { return cmp.Compare(a[1], b[1]) })
	return front
}

// TestFrontIsDesirableSet compares with the recursion of the paper, for all
// sizes.
func TestFrontIsDesirableSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 2))
	for range 300 {
		k := random(rng)
		k.Size = 1 + rng.IntN(40)
		for i := range k.Micros {
			k.Micros[i].Time, k.Micros[i].Bytes = time.Duration(rng.IntN(1000)), int64(rng.IntN(20))
		}
		var got [][2]int64
		for _, c := range must[[]Config](t)(k.Front()) {
			got = append(got, [2]int64{int64(c.Time), c.Bytes})
		}
		if want := desirable(k); !slices.Equal(got, want) {
			t.Fatalf("%+v\n got %v\nwant %v", k, got, want)
		}
	}
}

// TestDivideExhaustive compares with the enumeration of all choices, which
// solves the integer program. Coarse units stay within the limit, and their
// bound stays below the optimum.
func TestDivideExhaustive(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 3))
	lost := 0
	for range 400 {
		kernels := []Kernel{random(rng), random(rng), random(rng)}
		all := make([][][]int, len(kernels))
		for i, k := range kernels {
			for _, c := range every(k) {
				all[i] = append(all[i], rank(k, c)[:3])
			}
		}
		for limit := range 13 {
			var best []int // time, workspace, pieces, then the workspaces in order
			for _, a := range all[0] {
				for _, b := range all[1] {
					for _, c := range all[2] {
						s := []int{a[0] + b[0] + c[0], a[1] + b[1] + c[1], a[2] + b[2] + c[2], a[1], b[1], c[1]}
						if s[1] <= limit && (best == nil || slices.Compare(s, best) < 0) {
							best = s
						}
					}
				}
			}
			for unit := int64(1); unit < 5; unit++ {
				d, err := Divide(kernels, int64(limit), unit)
				if best == nil {
					if !errors.Is(err, ErrLimit) {
						t.Fatalf("%+v, limit %d: %+v, %v, want ErrLimit", kernels, limit, d, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%+v, limit %d, unit %d: %v", kernels, limit, unit, err)
				}
				got := make([]int, 3)
				for i, c := range d.Configs {
					r := rankOf(t, kernels[i], c)
					for j := range 3 {
						got[j] += r[j]
					}
					got = append(got, r[1])
				}
				if int(d.Time) != got[0] || int(d.Bytes) != got[1] {
					t.Fatalf("%+v does not sum to %v", d, got)
				}
				switch {
				case unit == 1 && (!slices.Equal(got, best) || d.Bound != d.Time):
					t.Fatalf("%+v, limit %d: bound %v, got %v, want %v", kernels, limit, d.Bound, got, best)
				case got[0] < best[0] || got[1] > limit || int(d.Bound) > best[0]:
					t.Fatalf("%+v, limit %d, unit %d: got %v, bound %v; the best is %v", kernels, limit, unit, got, d.Bound, best)
				case got[0] > best[0]:
					lost++
				}
			}
		}
	}
	if lost == 0 {
		t.Error("no coarse unit ever cost anything: the test does not see rounding")
	}
}

// TestDivideKnapsack compares with dynamic programming over (kernel, bytes), on
// more kernels than enumeration can treat.
func TestDivideKnapsack(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 8))
	type cost struct{ time, bytes int64 }
	for range 60 {
		var kernels []Kernel
		for i := range 14 {
			k := Kernel{Name: fmt.Sprint("k", i), Size: 1 + rng.IntN(20), Micros: []Micro{{1, "direct", time.Duration(400 + rng.IntN(200)), int64(rng.IntN(3))}}}
			for range 12 {
				b := 1 + rng.IntN(k.Size)
				k.Micros = append(k.Micros, Micro{b, "fast", time.Duration(b * (100 + rng.IntN(400))), int64(b * rng.IntN(6))})
			}
			kernels = append(kernels, k)
		}
		for _, limit := range []int{60, 100, 150, 300, 500} {
			table := make([]cost, limit+1) // by available bytes
			for _, k := range kernels {
				next := slices.Repeat([]cost{{math.MaxInt64, 0}}, limit+1)
				front := must[[]Config](t)(k.Front())
				for room := range next {
					for _, c := range front {
						if int(c.Bytes) > room || table[room-int(c.Bytes)].time == math.MaxInt64 {
							continue
						}
						with := table[room-int(c.Bytes)]
						with.time, with.bytes = with.time+int64(c.Time), with.bytes+c.Bytes
						if now := next[room]; with.time < now.time || with.time == now.time && with.bytes < now.bytes {
							next[room] = with
						}
					}
				}
				table = next
			}
			d := must[Division](t)(Divide(kernels, int64(limit), 1))
			if got := (cost{int64(d.Time), d.Bytes}); got != table[limit] {
				t.Fatalf("limit %d: %+v, want %+v of %+v", limit, got, table[limit], kernels)
			}
			for _, unit := range []int64{3, 16} {
				c := must[Division](t)(Divide(kernels, int64(limit), unit))
				if c.Time < d.Time || c.Bound > d.Time || c.Bytes > int64(limit) {
					t.Fatalf("limit %d, unit %d: %v with %d bytes, bound %v; the best is %v", limit, unit, c.Time, c.Bytes, c.Bound, d.Time)
				}
			}
		}
	}
}

// TestTies has one case for each line of the rule for ties.
func TestTies(t *testing.T) {
	for _, c := range []struct {
		name string
		k    Kernel
		want string
	}{
		{"time", Kernel{"", 4, []Micro{{4, "a", 5, 0}, {2, "b", 2, 9}}}, "2x 2 b"},
		{"workspace", Kernel{"", 4, []Micro{{4, "a", 4, 9}, {2, "b", 2, 3}}}, "2x 2 b"},
		{"pieces", Kernel{"", 4, []Micro{{1, "a", 1, 0}, {2, "b", 2, 0}, {4, "c", 4, 0}}}, "4 c"},
		{"sizes", Kernel{"", 6, []Micro{{3, "a", 3, 0}, {2, "b", 2, 0}, {4, "c", 4, 0}}}, "4 c + 2 b"},
		{"less workspace in one size", Kernel{"", 2, []Micro{{1, "a", 1, 5}, {1, "b", 1, 0}}}, "2x 1 b"},
		{"listed first", Kernel{"", 2, []Micro{{1, "b", 1, 0}, {1, "a", 1, 0}}}, "2x 1 b"},
	} {
		if got := must[Config](t)(c.k.Reuse(9)); got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	two := Kernel{"", 1, []Micro{{1, "a", 2, 0}, {1, "b", 1, 4}}}
	d := must[Division](t)(Divide([]Kernel{two, two}, 4, 1))
	if d.Configs[0].String() != "1 a" || d.Configs[1].String() != "1 b" {
		t.Errorf("one workspace for two equal kernels: %v, want it at the second", d.Configs)
	}
}

// TestBadTables verifies that damaged measurements are rejected.
func TestBadTables(t *testing.T) {
	huge := Kernel{"huge", 1, []Micro{{1, "a", math.MaxInt64 - 1, 0}}}
	wide := Kernel{"wide", 1, []Micro{{1, "a", 1, math.MaxInt64 - 1}}}
	_, both := Divide([]Kernel{huge, huge}, 0, 1)
	_, bytes := Divide([]Kernel{wide, wide}, math.MaxInt64, 1)
	for _, c := range []struct {
		name string
		err  error
	}{
		{"size of the kernel", front(Kernel{"k", 0, nil})},
		{"nothing measured", front(Kernel{"k", 3, nil})},
		{"sizes do not sum", front(Kernel{"k", 3, []Micro{{2, "a", 1, 0}}})},
		{"larger than the kernel", front(Kernel{"k", 3, []Micro{{4, "a", 1, 0}}})},
		{"size of a piece", front(Kernel{"k", 3, []Micro{{0, "a", 1, 0}}})},
		{"time", front(Kernel{"k", 3, []Micro{{1, "a", -1, 0}}})},
		{"workspace", front(Kernel{"k", 3, []Micro{{1, "a", 1, -1}}})},
		{"overflow", front(Kernel{"k", 3, []Micro{{1, "a", math.MaxInt64 / 2, 0}}})},
		{"overflow of a sum", both},
		{"overflow of a sum of bytes", bytes},
	} {
		if got := exit.CodeOf(c.err); got != exit.BadData {
			t.Errorf("%s: code %d (%v), want %d", c.name, got, c.err, exit.BadData)
		}
	}
	if _, err := Divide(nil, 0, 0); exit.CodeOf(err) != exit.Bug {
		t.Errorf("unit 0: %v, want a bug", err)
	}
	if d := must[Division](t)(Divide(nil, 0, 1)); len(d.Configs) != 0 || d.Time != 0 {
		t.Errorf("no kernels: %+v", d)
	}
}

func front(k Kernel) error {
	_, err := k.Front()
	return err
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		want []int
	}{
		{"undivided", 7, []int{7}},
		{"powerOfTwo", 1, []int{1}},
		{"powerOfTwo", 8, []int{1, 2, 4, 8}},
		{"powerOfTwo", 11, []int{1, 2, 4, 8, 11}},
		{"all", 4, []int{1, 2, 3, 4}},
	} {
		p := must[Policy](t)(ParsePolicy(c.name))
		if got := p.Sizes(c.size); p.String() != c.name || !slices.Equal(got, c.want) {
			t.Errorf("%s of %d: %v, want %v", p, c.size, got, c.want)
		}
	}
	if _, err := ParsePolicy("some"); exit.CodeOf(err) != exit.Usage {
		t.Errorf("unknown policy: %v", err)
	}
}

// network has 66 kernels (22 convolutions in three directions) with arbitrary
// workspaces: the problem size of a training.
func network(rng *rand.Rand) []Kernel {
	var all []Kernel
	for i := range 66 {
		k := Kernel{Name: fmt.Sprint("k", i), Size: []int{352, 176, 88, 44}[i%4]}
		row := 1000 + rng.Int64N(7_000_000)
		rate := 1e5 * (0.3 + rng.Float64())
		for _, h := range PowerOfTwo.Sizes(k.Size) {
			t := func(f, over float64) time.Duration { return time.Duration(rate * (f*float64(h) + over)) }
			k.Micros = append(k.Micros, Micro{h, "direct", t(1, 0.2), 0},
				Micro{h, "gemm", t(0.7*(0.9+0.2*rng.Float64()), 1), row*int64(h) + rng.Int64N(1000)},
				Micro{h, "tile", t(0.4*(0.9+0.2*rng.Float64()), 4), row*int64(h)*3/4 + rng.Int64N(1000)})
		}
		all = append(all, k)
	}
	return all
}

// TestNetwork verifies that the exact division of a network is fast, is never
// slower than coarse units or equal shares, and improves with the limit.
func TestNetwork(t *testing.T) {
	kernels := network(rand.New(rand.NewPCG(10, 4)))
	last := time.Duration(math.MaxInt64)
	for _, mib := range []int64{0, 64, 256, 1024, 4096, 1 << 20} {
		start := time.Now()
		exact := must[Division](t)(Divide(kernels, mib*MiB, 1))
		middle := time.Now()
		coarse := must[Division](t)(Divide(kernels, mib*MiB, MiB))
		end := time.Now()
		var equal time.Duration
		for _, k := range kernels {
			equal += must[Config](t)(k.Reuse(mib * MiB / int64(len(kernels)))).Time
		}
		t.Logf("%7d MiB: exact %v (solved in %v), in MiB %v (bound %v, in %v), equal shares %v",
			mib, exact.Time, middle.Sub(start), coarse.Time, coarse.Bound, end.Sub(middle), equal)
		if exact.Time > last || exact.Bytes > mib*MiB || coarse.Bytes > mib*MiB {
			t.Errorf("%d MiB: %v with %d bytes after %v", mib, exact.Time, exact.Bytes, last)
		}
		if exact.Time > equal || exact.Time > coarse.Time || coarse.Bound > exact.Time {
			t.Errorf("%d MiB: exact %v, equal shares %v, in MiB %v with bound %v", mib, exact.Time, equal, coarse.Time, coarse.Bound)
		}
		last = exact.Time
	}
	if again := must[Division](t)(Divide(kernels, 256*MiB, 1)); !reflect.DeepEqual(again, must[Division](t)(Divide(kernels, 256*MiB, 1))) {
		t.Error("two calls differ")
	}
}
