package ecc

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// field is a template of random members, with ties and a missing point.
func field(members, points int) [][]float32 {
	r := rand.New(rand.NewPCG(7, 11))
	out := make([][]float32, members)
	for m := range out {
		out[m] = make([]float32, points)
		for p := range out[m] {
			out[m][p] = float32(math.Round(4*r.NormFloat64())) / 4
		}
	}
	out[1][3] = float32(math.NaN())
	return out
}

func normalAt(mu, sigma float64) func(int, float64) float64 {
	return func(p int, level float64) float64 { return mu + float64(p) + sigma*dist.NormalQuantile(level) }
}

// assigns are all ways to assign levels to six members.
func assigns() map[string]Assignment {
	return map[string]Assignment{"ranked": Quantiles(MidLevels(6), Draws{}), "drawn": Random(6, Draws{Seed: 5}), "fitted": Transformation(Draws{})}
}

// Whatever assigns levels, members are in the order of the template, and a point that is
// missing in one of its fields is missing in all.
func TestMembersKeepTheTemplatesOrder(t *testing.T) {
	template := field(6, 40)
	for name, assign := range assigns() {
		got, err := Couple(template, assign, normalAt(273, 2))
		if err != nil {
			t.Fatal(err)
		}
		for p := range template[0] {
			for a := range template {
				if missing := p == 3; missing != (got[a][p] != got[a][p]) {
					t.Fatalf("%s: member %d at point %d is %g", name, a, p, got[a][p])
				} else if missing {
					continue
				}
				for b := range template {
					x, y := template[a][p], template[b][p]
					if x < y && !(got[a][p] < got[b][p]) {
						t.Fatalf("%s: at point %d members %d and %d are %g and %g, their template %g and %g", name, p, a, b, got[a][p], got[b][p], x, y)
					}
				}
			}
		}
	}
}

// Where the template has no ties, another order of its members is the same order of the
// result.
func TestMembersPermute(t *testing.T) {
	template := field(6, 40)
	for m := range template {
		for p := range template[m] {
			template[m][p] += float32(m) * 1e-3
		}
	}
	order := []int{3, 0, 5, 1, 4, 2}
	turned := make([][]float32, 6)
	for m, from := range order {
		turned[m] = template[from]
	}
	for name, assign := range assigns() {
		want, err := Couple(template, assign, normalAt(0, 1))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Couple(turned, assign, normalAt(0, 1))
		if err != nil {
			t.Fatal(err)
		}
		for m, from := range order {
			for p, v := range got[m] {
				if w := want[from][p]; math.Abs(float64(v-w)) > 1e-5 { // a mean in another order rounds otherwise
					t.Fatalf("%s: member %d at point %d is %g, want %g", name, m, p, v, w)
				}
			}
		}
	}
}

// At every point, sorted members are exactly the quantiles of the levels: coupling changes
// who has a value and no value.
func TestRankedKeepsTheMargins(t *testing.T) {
	template, q := field(6, 40), normalAt(10, 3)
	got, err := CoupleQuantiles(template, Levels(6), Draws{}, q)
	if err != nil {
		t.Fatal(err)
	}
	for p := range template[0] {
		if p == 3 {
			continue
		}
		values := make([]float32, 6)
		for m := range got {
			values[m] = got[m][p]
		}
		slices.Sort(values)
		for m, level := range Levels(6) {
			if want := float32(q(p, level)); values[m] != want {
				t.Fatalf("point %d: %v, want %g at level %g", p, values, want, level)
			}
		}
	}
}

// Draws follow from seed and place alone: the same whatever else is drawn; and over many
// points they are uniform, so the levels of one member's rank are those of order statistics,
// with mean i/(M+1).
func TestDrawnLevels(t *testing.T) {
	level := func(_ int, l float64) float64 { return l }
	const points = 20000
	template := make([][]float32, 4)
	for m := range template {
		template[m] = make([]float32, points)
		for p := range template[m] {
			template[m][p] = float32(m)
		}
	}
	all, err := Couple(template, Random(4, Draws{Seed: 5}), level)
	if err != nil {
		t.Fatal(err)
	}
	for m := range all {
		var mean float64
		for _, v := range all[m] {
			mean += float64(v) / points
		}
		// Four standard errors: the variance of the i-th of M is i(M+1-i)/((M+1)²(M+2)).
		i := float64(m + 1)
		if want, tol := i/5, 4*math.Sqrt(i*(5-i)/25/6/points); math.Abs(mean-want) > tol {
			t.Errorf("rank %d has mean level %g, want %g within %g", m+1, mean, want, tol)
		}
	}
	part := [][]float32{{0}, {1}, {2}, {3}}
	one, err := Couple(part, Random(4, Draws{5, func(int) uint64 { return 77 }}), level)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Couple(part, Random(4, Draws{6, func(int) uint64 { return 77 }}), level)
	if err != nil {
		t.Fatal(err)
	}
	for m := range one {
		if one[m][0] != all[m][77] || other[m][0] == one[m][0] {
			t.Errorf("member %d: %g alone, %g among others, %g of another seed", m, one[m][0], all[m][77], other[m][0])
		}
	}
}

// ECC-T of a normal distribution scales the members' distances, so their spread is its own.
func TestFittedScalesDistances(t *testing.T) {
	raw := [][]float32{{271.3}, {272.8}, {270.9}, {273.4}, {272.2}}
	got, err := Couple(raw, Transformation(Draws{}), func(_ int, p float64) float64 { return 273 + 1.5*dist.NormalQuantile(p) })
	if err != nil {
		t.Fatal(err)
	}
	// The raw mean is 272.12, the sum of squares 4.268, so s = √1.067.
	for m, x := range []float64{271.3, 272.8, 270.9, 273.4, 272.2} {
		want := 273 + 1.5*(x-272.12)/math.Sqrt(1.067)
		if math.Abs(float64(got[m][0])-want) > 1e-4 {
			t.Errorf("member %d: %g, want %g", m, got[m][0], want)
		}
	}
	// Equal members have no spread to scale: they get the levels of quantiles.
	flat, err := Couple([][]float32{{5}, {5}, {5}}, Transformation(Draws{}), func(_ int, p float64) float64 { return p })
	if err != nil {
		t.Fatal(err)
	}
	own := []float32{flat[0][0], flat[1][0], flat[2][0]}
	slices.Sort(own)
	for m, want := range MidLevels(3) {
		if own[m] != float32(want) {
			t.Errorf("equal members: levels %v, want %g", own, want)
		}
	}
}
