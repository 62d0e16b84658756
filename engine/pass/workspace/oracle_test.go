package workspace

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// ms converts milliseconds to exact nanoseconds.
func ms(t float64) time.Duration { return time.Duration(math.Round(t * 1e6)) }

// micros parses "algorithm time/workspace …" for the given sizes.
func micros(t testing.TB, sizes []int, lines ...string) []Micro {
	var all []Micro
	for _, line := range lines {
		f := strings.Fields(line)
		for i, text := range f[1:] {
			var x float64
			var w int64
			if _, err := fmt.Sscanf(text, "%g/%d", &x, &w); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			all = append(all, Micro{sizes[i], f[0], ms(x), w})
		}
	}
	return all
}

func must[T any](t testing.TB) func(x T, err error) T {
	return func(x T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// The layers of the reference cases O2 and O3.
func layers(t testing.TB) []Kernel {
	s := []int{1, 2, 4, 8}
	return []Kernel{
		{"A", 8, micros(t, s, "gemm 1.30/0 2.50/0 4.90/0 9.60/0", "ipg 1.25/1 2.30/2 4.20/4 8.00/8", "fft 1.10/4 1.70/8 2.90/16 5.40/32")},
		{"B", 8, micros(t, s, "gemm .50/0 .95/0 1.85/0 3.60/0", "win .40/2 .62/3 1.05/6 1.90/12")},
		{"C", 8, micros(t, s, "gemm 2.2/0 4.3/0 8.4/0 16.5/0", "fft 1.3/6 2.0/12 3.6/24 6.9/48")},
	}
}

// show formats a front as "(milliseconds,bytes: pieces) …".
func show(front []Config) string {
	var s []string
	for _, c := range front {
		s = append(s, fmt.Sprintf("(%g,%d: %s)", float64(c.Time)/1e6, c.Bytes, c))
	}
	return strings.Join(s, " ")
}

// TestO1 is the unit test of the reference code of the paper. That code
// requires workspaces below the limit; with w ≤ limit the front has one more
// member.
func TestO1(t *testing.T) {
	k := Kernel{Name: "O1", Size: 256}
	for _, b := range PowerOfTwo.Sizes(256) {
		k.Micros = append(k.Micros,
			Micro{b, "fast", ms(0.1*float64(b) + 0.01), int64(b) << 20},
			Micro{b, "slow", ms(10*float64(b) + 0.1), int64(b)})
	}
	want := []struct {
		time          float64
		bytes, pieces int
	}{{25.64, 67108864, 4},
		{25.68, 33554432, 8}, {25.76, 16777216, 16}, {25.92, 8388608, 32}, {26.24, 4194304, 64}, {26.88, 2097152, 128},
		{28.16, 1048576, 256}, {2560.1, 256, 1}, {2560.2, 128, 2}, {2560.4, 64, 4}, {2560.8, 32, 8}, {2561.6, 16, 16},
		{2563.2, 8, 32}, {2566.4, 4, 64}, {2572.8, 2, 128}, {2585.6, 1, 256}}
	got := fitting(must[[]Config](t)(k.Front()), 64<<20)
	slices.Reverse(got)
	if len(got) != len(want) {
		t.Fatalf("%d members, want %d", len(got), len(want))
	}
	for i, w := range want {
		if c := got[i]; c.Time != ms(w.time) || c.Bytes != int64(w.bytes) || c.Count() != w.pieces {
			t.Errorf("member %d: %v, %d bytes, %d pieces, want %+v", i, c.Time, c.Bytes, c.Count(), w)
		}
	}
	if c := must[Config](t)(k.Reuse(64<<20 - 1)); c.Time != ms(25.68) {
		t.Errorf("one byte below 64 MiB: %v, want 25.68ms", c.Time)
	}
}

func TestO2(t *testing.T) {
	a := layers(t)[0]
	const want = "(9.6,0: 8 gemm) (9.2,2: 4x 2 ipg) (8.4,4: 2x 4 ipg) (6.8,8: 4x 2 fft) (5.8,16: 2x 4 fft) (5.4,32: 8 fft)"
	if got := show(must[[]Config](t)(a.Front())); got != want {
		t.Errorf("front\n got %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		size   int
		limit  int64
		time   float64
		pieces string
	}{
		{8, 1, 9.6, "8 gemm"}, {8, 31, 5.8, "2x 4 fft"}, {8, 32, 5.4, "8 fft"},
		{6, 0, 7.4, "4 gemm + 2 gemm"}, {6, 4, 6.4, "4 ipg + 2x 1 fft"}, {6, 8, 5.1, "3x 2 fft"}, {6, 16, 4.6, "4 fft + 2 fft"},
	} {
		a.Size = c.size
		if got := must[Config](t)(a.Reuse(c.limit)); got.Time != ms(c.time) || got.String() != c.pieces {
			t.Errorf("size %d, limit %d: %v with %s, want %v ms with %s", c.size, c.limit, got.Time, got, c.time, c.pieces)
		}
	}
}

func TestO3(t *testing.T) {
	k := layers(t)
	for i, want := range []string{
		"(3.6,0: 8 gemm) (3.2,2: 8x 1 win) (2.48,3: 4x 2 win) (2.1,6: 2x 4 win) (1.9,12: 8 win)",
		"(16.5,0: 8 gemm) (10.4,6: 8x 1 fft) (8,12: 4x 2 fft) (7.2,24: 2x 4 fft) (6.9,48: 8 fft)",
	} {
		if got := show(must[[]Config](t)(k[i+1].Front())); got != want {
			t.Errorf("front of %s\n got %s\nwant %s", k[i+1].Name, got, want)
		}
	}
	for _, c := range []struct {
		limit  int64
		time   float64
		bytes  int64
		shares [3]int64
		equal  float64 // WR with a third of the limit per layer
	}{
		{0, 29.7, 0, [3]int64{}, 29.7},
		{12, 21.2, 12, [3]int64{0, 0, 12}, 27.38},
		{24, 17.28, 23, [3]int64{8, 3, 12}, 19.3},
		{36, 15.9, 34, [3]int64{16, 6, 12}, 16.7},
		{48, 15.1, 46, [3]int64{16, 6, 24}, 15.7},
		{60, 14.9, 52, [3]int64{16, 12, 24}, 15.7},
		{72, 14.5, 68, [3]int64{32, 12, 24}, 14.9},
		{92, 14.2, 92, [3]int64{32, 12, 48}, 14.9},
	} {
		d := must[Division](t)(Divide(k, c.limit, 1))
		var shares [3]int64
		var equal time.Duration
		for i := range k {
			shares[i] = d.Configs[i].Bytes
			equal += must[Config](t)(k[i].Reuse(c.limit / 3)).Time
		}
		if d.Time != ms(c.time) || d.Bytes != c.bytes || shares != c.shares || d.Bound != d.Time {
			t.Errorf("limit %d: %v, bound %v, %d bytes, shares %v, want %+v", c.limit, d.Time, d.Bound, d.Bytes, shares, c)
		}
		if equal != ms(c.equal) {
			t.Errorf("limit %d in equal shares: %v, want %v ms", c.limit, equal, c.equal)
		}
	}
}

// slabKernel is the kernel of the reference case O4: a global field in slabs of
// latitude.
func slabKernel() Kernel {
	const row = 6386688 // scratch bytes per row
	k := Kernel{Name: "O4", Size: 352}
	for _, h := range []int{11, 22, 44, 88, 176, 352} {
		x, w := float64(h), int64(h)*row
		k.Micros = append(k.Micros, Micro{h, "direct", ms(0.30 * x), 0}, Micro{h, "gemm", ms(0.20*x + 0.5), w},
			Micro{h, "tile", ms(0.12*(x+4) + 1), w / 4 * 3})
	}
	return k
}

func TestO4(t *testing.T) {
	k := slabKernel()
	for _, c := range []struct {
		mib    int64
		time   float64
		pieces string
	}{
		{0, 105.6, "352 direct"}, // dividing does not help, so the kernel stays whole
		{32, 105.6, "352 direct"},
		{64, 89.6, "32x 11 tile"},
		{128, 65.92, "16x 22 tile"},
		{256, 54.08, "8x 44 tile"},
		{512, 48.16, "4x 88 tile"},
		{1024, 45.2, "2x 176 tile"},
		{2048, 43.72, "352 tile"},
	} {
		if got := must[Config](t)(k.Reuse(c.mib << 20)); got.Time != ms(c.time) || got.String() != c.pieces {
			t.Errorf("%d MiB: %v with %s, want %v ms with %s", c.mib, got.Time, got, c.time, c.pieces)
		}
	}
	front := must[[]Config](t)(k.Front())
	if i := slices.IndexFunc(front, func(c Config) bool { return c.Pieces[0].Algorithm == "gemm" }); len(front) != 8 || i < 0 ||
		front[i].Time != ms(86.4) || front[i].Bytes != 70253568 || front[i].String() != "32x 11 gemm" {
		t.Errorf("front %s; want 8 members, among them 86.4 ms with 70253568 bytes: 32x 11 gemm", show(front))
	}
}

// TestNoFreeAlgorithm verifies that a limit of 0 gives an error with the
// required workspace if every algorithm needs some.
func TestNoFreeAlgorithm(t *testing.T) {
	k := layers(t)
	for i := range k {
		k[i].Micros = slices.DeleteFunc(k[i].Micros, func(m Micro) bool { return m.Algorithm == "gemm" })
	}
	_, one := k[1].Reuse(0)
	_, all := Divide(k, 8, 1)
	for _, c := range []struct {
		err  error
		want string
	}{
		{one, "error[E064]: workspace limit of 0 bytes is too small\n  at: B\n" +
			"  why: every configuration needs at least 2 bytes\n  fix: set the limit to 2 bytes or more"},
		{all, "error[E064]: workspace limit of 8 bytes is too small\n  at: 3 kernels\n" +
			"  why: every configuration needs at least 9 bytes\n  fix: set the limit to 9 bytes or more"},
	} {
		if !errors.Is(c.err, ErrLimit) || c.err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
	if d := must[Division](t)(Divide(k, 9, 4)); d.Bytes != 9 {
		t.Errorf("a limit of 9 in units of 4: %d bytes, want 9, for rounding must not make it infeasible", d.Bytes)
	}
}
