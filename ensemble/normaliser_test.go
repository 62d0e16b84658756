package ensemble

import (
	"math"
	"math/rand/v2"
	"testing"
)

func testGrid(ny, nx int, global bool) *Grid {
	g := &Grid{Kind: RegularLatLon, NX: nx, NY: ny, Lat: make([]float64, ny), Lon: make([]float64, nx)}
	for j := range ny {
		g.Lat[j] = 90 - (float64(j)+0.5)*180/float64(ny)
	}
	for i := range nx {
		g.Lon[i] = float64(i)
		if global {
			g.Lon[i] = float64(i) * 360 / float64(nx)
		}
	}
	return g
}

// The numbers are NumPy's and SciPy's (testdata/las.py): window 3, sigma 1, two
// years of three days on 5 x 6 points, x = (7y+3d+5i+2j+ij) mod 11.
func TestLASOracle(t *testing.T) {
	g := testGrid(5, 6, true)
	m := NewPointSums(g)
	for y := range 2 {
		for d := range 3 {
			x := make([]float32, g.Size())
			for i := range 5 {
				for j := range 6 {
					x[i*6+j] = float32((7*y + 3*d + 5*i + 2*j + i*j) % 11)
				}
			}
			m.Add(x)
		}
	}
	n, err := m.LAS(g, LASOptions{Window: 3, Smooth: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  float64
		want float64
	}{
		{"M(0,0)", n.Mean[0], 5.0958541649}, {"M(2,3)", n.Mean[2*6+3], 5.2085472066}, {"M(4,5)", n.Mean[4*6+5], 5.1404674185},
		{"S(0,0)", n.Scale[0], 3.2200587678}, {"S(2,3)", n.Scale[2*6+3], 3.1755462917}, {"S(4,5)", n.Scale[4*6+5], 3.1909243065},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s = %.10f, want %.10f", c.name, c.got, c.want)
		}
	}
}

// Rolling all fields around the globe must roll the maps, which holds only if
// windows wrap.
func TestLASWrapsInLongitude(t *testing.T) {
	g := testGrid(9, 16, true)
	fit := func(roll int) *Normaliser {
		m := NewPointSums(g)
		for d := range 4 {
			x := make([]float32, g.Size())
			for j := range g.NY {
				for i := range g.NX {
					x[j*g.NX+(i+roll)%g.NX] = float32(math.Sin(float64(3*d+j*i)) + 0.3*float64(i))
				}
			}
			m.Add(x)
		}
		n, err := m.LAS(g, LASOptions{Window: 5, Smooth: 1.5})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := fit(0), fit(5)
	for j := range g.NY {
		for i := range g.NX {
			p, q := j*g.NX+i, j*g.NX+(i+5)%g.NX
			if math.Abs(a.Mean[p]-b.Mean[q]) > 1e-12 || math.Abs(a.Scale[p]-b.Scale[q]) > 1e-12 {
				t.Fatalf("maps do not roll with the fields at row %d, column %d", j, i)
			}
		}
	}
}

// Global standardisation of the data it was fitted on has area mean 0 and
// variance 1, also where the offset is 10^4 times the variability.
func TestGlobalStandardises(t *testing.T) {
	g := testGrid(7, 12, true)
	m := NewPointSums(g)
	var fields [][]float32
	for d := range 5 {
		x := make([]float32, g.Size())
		for p := range x {
			x[p] = 55000 + 5*float32(math.Sin(float64(p*p+7*d)))
		}
		fields = append(fields, x)
		m.Add(x)
	}
	n, err := m.Global(g)
	if err != nil {
		t.Fatal(err)
	}
	w := g.Weights()
	var sw, s, sq float64
	for _, x := range fields {
		y := make([]float32, len(x))
		n.Apply(y, x)
		for p, v := range y {
			sw += w[p]
			s += w[p] * float64(v)
			sq += w[p] * float64(v) * float64(v)
		}
	}
	if math.Abs(s/sw) > 1e-5 || math.Abs(sq/sw-1) > 1e-5 {
		t.Errorf("standardised mean %g, mean square %g", s/sw, sq/sw)
	}
}

// Where a variable has no values, which is where it has none by nature, its maps have those
// of the rest, and do not spoil them elsewhere.
func TestLASWithoutValues(t *testing.T) {
	g := testGrid(20, 24, true)
	m := NewPointSums(g)
	r := rand.New(rand.NewPCG(8, 1))
	x := make([]float32, g.Size())
	for range 40 {
		for p := range x {
			x[p] = 280 + float32(r.NormFloat64())
			if p/24 < 12 && p%24 < 12 {
				x[p] = float32(math.NaN())
			}
		}
		m.Add(x)
	}
	n, err := m.LAS(g, LASOptions{Window: 3, Smooth: 1})
	if err != nil {
		t.Fatal(err)
	}
	for p := range x {
		if !(math.Abs(n.Mean[p]-280) < 0.5) || !(math.Abs(n.Scale[p]-1) < 0.3) {
			t.Fatalf("point %d: mean %g, scale %g", p, n.Mean[p], n.Scale[p])
		}
	}
}

// TestNearlyConstantFields: a field that varies by rounding only, or not at all, is 0 whatever
// values come later; one that varies more is standardised, and values far outside are limited.
func TestNearlyConstantFields(t *testing.T) {
	g := testGrid(8, 8, true)
	for name, c := range map[string]struct {
		value, step float32
		constant    bool
	}{
		"zero": {0, 0, true}, "equal": {3, 0, true}, "last bit": {273.15, 0x1p-15, true}, "packing of pressure": {101325, 0.5, true},
		"a hundredth of a kelvin": {273.15, 0.02, false}, "a trace of rain": {0, 1e-6, false}, "specific humidity": {3e-6, 1e-9, false},
	} {
		m := NewPointSums(g)
		x := make([]float32, g.Size())
		for date := range 4 {
			for p := range x {
				x[p] = c.value + float32((p+date)%2)*c.step
			}
			m.Add(x)
		}
		n, _ := m.Global(g)
		l, _ := m.LAS(g, LASOptions{})
		for _, f := range []*Normaliser{n, l} {
			if f.Constant() != c.constant {
				t.Errorf("%s, %s: constant %v, scale %g", name, f.Kind, f.Constant(), f.Scale[0])
			}
			for p := range x {
				x[p] = c.value + 100
			}
			f.Apply(x, x)
			limitInputs(x)
			if want := map[bool]float32{true: 0, false: InputLimit}[c.constant]; math.Abs(float64(x[0]-want)) > 1e-6 {
				t.Errorf("%s, %s: 100 more gives %g, want %g", name, f.Kind, x[0], want)
			}
		}
	}
}

func TestConstantFieldGetsAScale(t *testing.T) {
	g := testGrid(8, 8, true)
	m := NewPointSums(g)
	x := make([]float32, g.Size())
	for p := range x {
		x[p] = 3
	}
	m.Add(x)
	n, _ := m.Global(g)
	l, _ := m.LAS(g, LASOptions{})
	y := make([]float32, len(x))
	for _, f := range []*Normaliser{n, l} {
		f.Apply(y, x)
		for _, v := range y {
			if v != 0 {
				t.Fatalf("%s: constant field gives %g, want 0", f.Kind, v)
			}
		}
	}
}

// TestScaleHasAFloor: where a field varies less than by a thousandth of its mean standard deviation, its scale is that thousandth. Else
// a value that was constant in training would be standardised to a huge number.
func TestScaleHasAFloor(t *testing.T) {
	g := testGrid(8, 8, true)
	m := NewPointSums(g)
	x := make([]float32, g.Size())
	quiet := 4*8 + 3
	for date := range 4 {
		for p := range x {
			x[p] = 4 * float32(date%2) // standard deviation 2
		}
		x[quiet] = 0
		m.Add(x)
	}
	n, err := m.LAS(g, LASOptions{Window: 1, Smooth: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	w, area, total := g.Weights(), 0.0, 0.0
	for p := range x {
		area += w[p]
		if p != quiet {
			total += 2 * w[p]
		}
	}
	if want := 1e-3 * total / area; math.Abs(n.Scale[quiet]-want) > 1e-9 || math.Abs(n.Scale[0]-2) > 1e-9 {
		t.Errorf("scale %g where the field is constant, want %g; %g elsewhere, want 2", n.Scale[quiet], want, n.Scale[0])
	}
}
