package dist

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// specialValues are the values near which formulas overflow, divide zero by zero, or iterate without limit.
var specialValues = []float64{0, math.Copysign(0, -1), 5e-324, 1e-310, 1e-300, 1e-20, 1e-8, 0.3, 0.5, 1, 1.5, 2, 20, 273.15, 1e5, 1e7, 1e9, 1e20, 1e154, 1e300,
	math.MaxFloat64, math.Inf(1), -1e-300, -0.3, -1, -40, -1e5, -1e20, -1e300, math.Inf(-1), math.NaN()}

// callLimit is the time that one call may take. None iterates more than 1e5 times, which takes milliseconds; the
// limit leaves room for a busy machine.
const callLimit = 10 * time.Second

// checkFamily calls every function of a family at parameters par with argument x. Each returns, without a panic, and:
//
//   - NaN among parameters or argument gives NaN
//   - a distribution function is in [0, 1] or NaN
//   - a CRPS is not negative, or NaN
//   - a standard deviation is not negative, or NaN
func checkFamily(t *testing.T, f *Family, par []float64, x float64) {
	t.Helper()
	at := func(name string) func() string {
		return func() string { return fmt.Sprintf("%s of %s with %v at %v", name, f.ID, par, x) }
	}
	call := func(name string, fn func() float64, ok func(v float64) bool) {
		timer := time.AfterFunc(callLimit, func() { panic(at(name)() + " does not return") })
		defer timer.Stop()
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("%s: panic: %v", at(name)(), r)
			}
		}()
		if v := fn(); !ok(v) {
			t.Errorf("%s is %v", at(name)(), v)
		}
	}
	nan := math.IsNaN(x) || slices.ContainsFunc(par, math.IsNaN)
	within := func(lo, hi float64) func(v float64) bool {
		return func(v float64) bool { return math.IsNaN(v) || !nan && v >= lo && v <= hi }
	}
	any := func(v float64) bool { return math.IsNaN(v) || !nan }
	returns := func(float64) bool { return true }
	grad := make([]float64, len(par))
	call("CDF", func() float64 { return f.CDF(par, x) }, within(0, 1))
	call("Below", func() float64 { return f.Below(par, x) }, within(0, 1))
	call("Above", func() float64 { return f.Above(par, x) }, within(0, 1))
	call("CRPS", func() float64 { return f.CRPS(nil, par, x) }, within(-1e-9, math.Inf(1)))
	if f.ID != HistogramID { // whose edges have no gradient
		call("CRPS with gradient", func() float64 { return f.CRPS(grad, par, x) }, returns)
	}
	call("Quantile", func() float64 { return f.Quantile(par, x) }, any)
	call("QuantileFunc", func() float64 { return f.QuantileFunc(x)(par) }, any)
	nan = slices.ContainsFunc(par, math.IsNaN)
	call("mean", func() float64 { m, _ := f.Moments(par); return m }, returns)
	call("standard deviation", func() float64 { _, s := f.Moments(par); return s }, returns)
	if f.HalfMeanDifference != nil {
		call("HalfMeanDifference", func() float64 { return f.HalfMeanDifference(par) }, returns)
	}
	call("SetMoments", func() float64 { p := slices.Clone(par); f.SetMoments(p, x, par[len(par)-1]); return 0 }, returns)
	if f.Excess.Family != nil {
		call("CRPSAbove", func() float64 {
			return f.CRPSAbove(make([]float64, len(f.Excess.Family.Parameters)), slices.Clone(par), par[0], x)
		}, returns)
	}
	if f.Average != nil && f.ID != HistogramID {
		call("Average", func() float64 { f.Average(nil, [][]float64{par, par}); return 0 }, returns)
	}
}

// eachSpecial calls visit with every combination of special values as the last two parameters and the argument, with
// other parameters at 1 or one special value.
func eachSpecial(f *Family, step int, visit func(par []float64, x float64)) {
	n, k := len(f.Parameters), 0
	par := make([]float64, n)
	for _, a := range specialValues {
		for _, b := range specialValues {
			for _, x := range specialValues {
				for _, rest := range []float64{1, 0.5, a} {
					if k++; k%step != 0 {
						continue
					}
					for i := range par {
						par[i] = rest
					}
					par[0] = a
					if n > 1 {
						par[n-1] = b
					}
					visit(par, x)
				}
			}
		}
	}
}

// TestSpecialParameters calls all functions of all families with a sample of the special values; TestLongSpecialParameters with
// all of them.
func TestSpecialParameters(t *testing.T) { specialParameters(t, 101) }

func specialParameters(t *testing.T, step int) {
	for _, r := range Table {
		f := r.AnyFamily()
		t.Run(f.ID, func(t *testing.T) {
			eachSpecial(f, step, func(par []float64, x float64) { checkFamily(t, f, par, x) })
		})
	}
}

// TestUnboundedShapes: the formulas of the gamma distribution that iterated without limit, or for very long, return, and approximations for wide
// shapes continue the exact ones.
func TestUnboundedShapes(t *testing.T) {
	grad := make([]float64, 3)
	for _, shape := range []float64{math.Inf(1), math.MaxFloat64, 1e300, 1e9} {
		if c := CSGamma.CRPS(grad, []float64{shape, 1, 0}, 5); math.IsInf(shape, 1) != math.IsNaN(c) {
			t.Errorf("shape %v: CRPS %v", shape, c)
		}
	}
	for _, at := range []struct{ shape, tolerance float64 }{{wideShape, 2e-5}, {normalShape, 1e-3}} {
		for _, z := range []float64{-2, -0.5, 0, 1, 3} {
			crps := func(shape float64) (c float64, g [3]float64) {
				// The scale makes the standard deviation 1.
				scale := 1 / math.Sqrt(at.shape)
				c = CSGamma.CRPS(g[:], []float64{shape, scale, 1}, at.shape*scale-1+z)
				return c, g
			}
			below, gb := crps(at.shape * (1 - 1e-12))
			above, ga := crps(at.shape * (1 + 1e-12))
			if math.Abs(below-above) > at.tolerance*(1+math.Abs(below)) {
				t.Errorf("shape %g, z %g: CRPS %v below, %v above", at.shape, z, below, above)
			}
			sizes := [3]float64{0, at.shape, 0} // a change of the scale moves the mean by the shape
			for i := range ga {
				if math.Abs(ga[i]-gb[i]) > at.tolerance*(1+math.Abs(gb[i]))+at.tolerance*sizes[i] {
					t.Errorf("shape %g, z %g: derivative %d is %v below, %v above", at.shape, z, i, gb[i], ga[i])
				}
			}
		}
	}
	for _, k := range []float64{1e-3, 0.1, 1, 7.5, 300, 1e6, 1e9} {
		for _, p := range []float64{1e-10, 0.01, 0.5, 0.99, 1 - 1e-9} {
			x := gammaQuantile(k, p)
			if back := gammaCDF(k, x); math.Abs(back-p) > 1e-9 && x > 1e-300 {
				t.Errorf("shape %g: the quantile of %v is %v, whose probability is %v", k, p, x, back)
			}
		}
	}
}

// FuzzFamilies calls the functions of the families with any bits: the first byte selects the family, each eight of the others
// are a number.
func FuzzFamilies(f *testing.F) {
	for i := range Table {
		for _, a := range specialValues {
			b := []byte{byte(i)}
			for _, v := range []float64{1, a, a, a} {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 9 {
			return
		}
		family := Table[int(b[0])%len(Table)].AnyFamily()
		var v []float64
		for b = b[1:]; len(b) >= 8; b = b[8:] {
			v = append(v, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		par := make([]float64, len(family.Parameters))
		for i := range par {
			par[i] = v[(i+1)%len(v)]
		}
		checkFamily(t, family, par, v[0])
	})
}
