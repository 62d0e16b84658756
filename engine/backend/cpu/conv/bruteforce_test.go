//go:build cgo && linux

package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// brute visits every product of the convolution in float64, with its flat indices: the
// definition with which all forms are compared.
func brute(s Spec, visit func(src, filter, dst, co int)) {
	s = s.normal()
	out := s.Out()
	for n := range s.N {
		for co := range s.Cout {
			for d := range out[0] {
				for h := range out[1] {
					for w := range out[2] {
						dst := (((n*s.Cout+co)*out[0]+d)*out[1]+h)*out[2] + w
						for ci := range s.Cin {
							for kd := range s.Kernel[0] {
								for kh := range s.Kernel[1] {
									for kw := range s.Kernel[2] {
										at := [3]int{d*s.Stride[0] + kd*s.Dilation[0], h*s.Stride[1] + kh*s.Dilation[1], w*s.Stride[2] + kw*s.Dilation[2]}
										src, inside := n*s.Cin+ci, true
										for i := range 3 {
											q := at[i] - s.Pad[i].Lo
											if s.Pad[i].Mode == kern.Periodic {
												q = ((q % s.In[i]) + s.In[i]) % s.In[i]
											}
											inside = inside && q >= 0 && q < s.In[i]
											src = src*s.In[i] + q
										}
										if inside {
											visit(src, ((((co*s.Cin+ci)*s.Kernel[0]+kd)*s.Kernel[1])+kh)*s.Kernel[2]+kw, dst, co)
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

const guard = 12345.5

// guarded is a slice of n values inside guard values, and the check that they
// are still there.
func guarded(t *testing.T, what string, n int) ([]float32, func()) {
	t.Helper()
	const g = 19
	buf := make([]float32, n+2*g)
	for i := range buf {
		buf[i] = guard
	}
	return buf[g : g+n : g+n], func() {
		t.Helper()
		for i := range g {
			if buf[i] != guard || buf[n+g+i] != guard {
				t.Errorf("%s: value written outside the slice", what)
				return
			}
		}
	}
}

// The sums have up to a few hundred terms of order 1/4 in float32: rounding of
// each (6e-8) adds up to below 1e-5 of the sum of magnitudes. Winograd's
// transforms multiply that by about ten.
const (
	tolPlain = 1e-5
	tolWino  = 1e-4
)

// worst is the largest difference relative to the sum of magnitudes of its terms.
func worst(got []float32, want, mag []float64) (float64, int) {
	at, most := 0, 0.0
	for i := range want {
		e := math.Abs(float64(got[i])-want[i]) / (mag[i] + 1e-3)
		if e > most || math.IsNaN(e) {
			at, most = i, e
			if math.IsNaN(e) {
				return math.Inf(1), i
			}
		}
	}
	return most, at
}

func same(k int) kern.Padding { return kern.Padding{Lo: (k - 1) / 2, Hi: k / 2} }
func wrap(k int) kern.Padding {
	return kern.Padding{Lo: (k - 1) / 2, Hi: k / 2, Mode: kern.Periodic}
}

var cases = []struct {
	name string
	s    Spec
}{
	{"unet 3x3x3 odd sizes", Spec{N: 2, Cin: 3, Cout: 5, In: [3]int{5, 6, 7}, Kernel: [3]int{3, 3, 3}, Pad: [3]kern.Padding{same(3), same(3), same(3)}}},
	{"depth 2, wide", Spec{N: 3, Cin: 12, Cout: 17, In: [3]int{2, 9, 33}, Kernel: [3]int{3, 3, 3}, Pad: [3]kern.Padding{same(3), same(3), same(3)}}},
	{"depth 2, longitude wraps", Spec{N: 2, Cin: 4, Cout: 16, In: [3]int{2, 5, 8}, Kernel: [3]int{3, 3, 3}, Pad: [3]kern.Padding{same(3), same(3), wrap(3)}}},
	{"5x5 wraps over a short axis", Spec{N: 1, Cin: 2, Cout: 3, In: [3]int{1, 6, 4}, Kernel: [3]int{1, 5, 5}, Pad: [3]kern.Padding{{}, same(5), wrap(5)}}},
	{"1x1x1", Spec{N: 2, Cin: 19, Cout: 1, In: [3]int{2, 7, 5}, Kernel: [3]int{1, 1, 1}}},
	{"stride 2", Spec{N: 2, Cin: 3, Cout: 4, In: [3]int{3, 8, 9}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 2, 2}, Pad: [3]kern.Padding{same(3), same(3), same(3)}}},
	{"depth stride 2", Spec{N: 1, Cin: 3, Cout: 4, In: [3]int{5, 6, 7}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{2, 1, 1}, Pad: [3]kern.Padding{same(3), same(3), same(3)}}},
	{"dilation 2", Spec{N: 1, Cin: 5, Cout: 3, In: [3]int{5, 6, 7}, Kernel: [3]int{2, 3, 3}, Dilation: [3]int{3, 2, 2}, Pad: [3]kern.Padding{{Lo: 1, Hi: 2}, {Lo: 2, Hi: 2}, {Lo: 2, Hi: 2, Mode: kern.Periodic}}}},
	{"unpadded", Spec{N: 2, Cin: 3, Cout: 9, In: [3]int{5, 6, 7}, Kernel: [3]int{2, 3, 4}}},
	{"asymmetric padding", Spec{N: 1, Cin: 3, Cout: 4, In: [3]int{5, 6, 7}, Kernel: [3]int{2, 3, 2}, Pad: [3]kern.Padding{{Lo: 1, Hi: 0}, {Lo: 0, Hi: 2}, {Lo: 1, Hi: 0}}}},
	{"wraps on all axes", Spec{N: 2, Cin: 2, Cout: 3, In: [3]int{5, 6, 7}, Kernel: [3]int{3, 3, 3}, Pad: [3]kern.Padding{wrap(3), wrap(3), wrap(3)}}},
	{"wraps to another size", Spec{N: 1, Cin: 2, Cout: 3, In: [3]int{2, 6, 7}, Kernel: [3]int{1, 3, 3}, Pad: [3]kern.Padding{{}, same(3), {Lo: 3, Hi: 2, Mode: kern.Periodic}}}},
	{"many channels, tiny", Spec{N: 3, Cin: 40, Cout: 33, In: [3]int{2, 4, 8}, Kernel: [3]int{3, 3, 3}, Pad: [3]kern.Padding{same(3), same(3), same(3)}}},
}

// Every form of every pass agrees with the float64 sum, on one thread and two,
// and writes nothing outside of its slices.
func TestFormsAgainstBruteForce(t *testing.T) {
	pool, err := kern.NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	built := map[string]int{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := c.s
			rng := rand.New(rand.NewPCG(7, 11))
			fill := func(x []float32) []float32 {
				for i := range x {
					x[i] = rng.Float32() - 0.5
				}
				return x
			}
			src, filter, bias := fill(make([]float32, s.SrcLen())), fill(make([]float32, s.FilterLen())), fill(make([]float32, s.Cout))
			ddst := fill(make([]float32, s.DstLen()))
			y, my := make([]float64, s.DstLen()), make([]float64, s.DstLen())
			dx, mx := make([]float64, s.SrcLen()), make([]float64, s.SrcLen())
			dw, mw := make([]float64, s.FilterLen()), make([]float64, s.FilterLen())
			db, mb := make([]float64, s.Cout), make([]float64, s.Cout)
			brute(s, func(i, k, o, _ int) {
				a, b, g := float64(src[i]), float64(filter[k]), float64(ddst[o])
				y[o] += a * b
				my[o] += math.Abs(a * b)
				dx[i] += b * g
				mx[i] += math.Abs(b * g)
				dw[k] += a * g
				mw[k] += math.Abs(a * g)
			})
			plane := s.DstLen() / s.N / s.Cout
			for i := range y {
				co := i / plane % s.Cout
				y[i] += float64(bias[co])
				db[co] += float64(ddst[i])
				mb[co] += math.Abs(float64(ddst[i]))
			}
			relu := make([]float64, len(y))
			for i, v := range y {
				relu[i] = max(v, 0)
			}
			for _, f := range forms {
				tol := tolPlain
				if f.wino {
					tol = tolWino
				}
				for _, o := range []Options{{Bias: true, Pool: pool}, {Bias: true, ReLU: true}} {
					check := func(pass Pass, run func(r runner, scratch []float32), judge func()) {
						r, err := f.build(s.normal(), pass, o)
						if err != nil {
							return
						}
						built[f.name+" "+pass.String()]++
						scratch, intact := guarded(t, f.name+" scratch", r.ScratchLen())
						run(r, scratch)
						intact()
						judge()
						if err := errorsOf(r.Close(), r.Close()); err != nil {
							t.Error(err)
						}
					}
					compare := func(what string, got []float32, want, mag []float64) {
						t.Helper()
						if e, i := worst(got, want, mag); e > tol {
							t.Errorf("%s form %s: at %d got %g, want %g (relative %.2g, tolerance %g)", what, f.name, i, got[i], want[i], e, tol)
						}
					}
					gy, okY := guarded(t, f.name+" dst", s.DstLen())
					check(Forward, func(r runner, sc []float32) { must(t, r.Run(src, filter, bias, gy, sc)) }, func() {
						okY()
						if o.ReLU {
							compare("forward relu", gy, relu, my)
						} else {
							compare("forward", gy, y, my)
						}
					})
					if o.ReLU {
						continue
					}
					gx, okX := guarded(t, f.name+" dsrc", s.SrcLen())
					check(BackwardData, func(r runner, sc []float32) { must(t, r.Run(gx, filter, nil, ddst, sc)) }, func() {
						okX()
						compare("backward data", gx, dx, mx)
					})
					gw, okW := guarded(t, f.name+" dfilter", s.FilterLen())
					gb, okB := guarded(t, f.name+" dbias", s.Cout)
					check(BackwardWeights, func(r runner, sc []float32) { must(t, r.Run(src, gw, gb, ddst, sc)) }, func() {
						okW()
						okB()
						compare("backward weights", gw, dw, mw)
						compare("backward bias", gb, db, mb)
					})
				}
			}
		})
	}
	t.Logf("forms judged: %v", built)
	for _, f := range forms {
		// Winograd went out of oneDNN with 3.0, and needs AVX-512 before.
		withoutWino := dnnl.Version() >= "3" || tune.VectorISA(kern.ISA()) != "avx512"
		if f.library != "" && (dnnlMissing() || f.wino && withoutWino) {
			continue
		}
		for _, p := range []Pass{Forward, BackwardData, BackwardWeights} {
			if built[f.name+" "+p.String()] == 0 {
				t.Errorf("form %s %s served no case", f.name, p)
			}
		}
	}
}

func dnnlMissing() bool {
	_, err := dnnl.Open()
	return err != nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
