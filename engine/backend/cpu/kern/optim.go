//go:build cgo && linux

package kern

/*
#cgo noescape ens_opt_squares
#cgo nocallback ens_opt_squares
#cgo noescape ens_opt_moments
#cgo nocallback ens_opt_moments
#cgo noescape ens_opt_move
#cgo nocallback ens_opt_move
#include "kern.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Rule is the update rule of an optimiser; see OptStep.
type Rule int

// The rules, numbered as in kern.h.
const (
	RuleSGD Rule = iota
	RuleNesterov
	RuleAdam
	RuleAdamW
	RuleLARS
	RuleLAMB
)

// ParamRange is a range of the flat parameters within one tensor: elements Lo to Hi.
// Its gradients and moments begin at At. Its memory layout is that of ens_piece.
type ParamRange struct{ Lo, Hi, Tensor, At int }

// OptArena holds the flat arrays of an optimiser. Parameters W and their exponential
// moving average E, if any, have one layout. Gradients G, first moments M and, if the
// rule has them, second moments V hold the elements of the ranges only.
type OptArena struct{ W, M, V, E, G []float32 }

// check panics unless all lengths fit.
func (a *OptArena) check(pieces []ParamRange) {
	want("g", len(a.G), len(a.M))
	for _, p := range pieces {
		if p.Lo < 0 || p.Hi > len(a.W) || p.At < 0 || p.At+p.Hi-p.Lo > len(a.M) {
			panic(fmt.Sprintf("kern: piece %+v of %d parameters and %d moments", p, len(a.W), len(a.M)))
		}
	}
	if a.V != nil {
		want("v", len(a.V), len(a.M))
	}
	if a.E != nil {
		want("e", len(a.E), len(a.W))
	}
}

// OptStep holds the constants of one step. With g′ = GradScale·g, and decay and ratio
// those of the tensor:
//
//	SGD       d = g′ + decay·w     m = Momentum·m + d     w = w − LR·m
//	Nesterov  d and m as SGD       w = w − LR·(d + Momentum·m)
//	Adam      d = g′ + decay·w     m = β₁m + (1−β₁)d     v = β₂v + (1−β₂)d²
//	          w = w − LR·(m/Correct1)/(√(v/Correct2) + Eps)
//	AdamW     w = w − LR·decay·w, then Adam with d = g′
//	LARS      m = Momentum·m + LR·ratio·(g′ + decay·w)     w = w − m
//	LAMB      m and v as Adam with d = g′     u = (m/Correct1)/(√(v/Correct2) + Eps) + decay·w
//	          w = w − LR·ratio·u
//	E         e = e + EMAWeight·(w − e), after the update
//
// Source: Kingma and Ba 2015, arXiv:1412.6980 (Adam); Loshchilov and Hutter 2019,
// arXiv:1711.05101 (AdamW); You et al. 2017, arXiv:1708.03888 (LARS); You et al. 2020,
// arXiv:1904.00962 (LAMB).
type OptStep struct {
	Rule                           Rule
	Beta1, Beta2                   float64
	LR, Eps                        float32
	Momentum, GradScale, EMAWeight float32
	Correct1, Correct2             float32   // 1−Beta1ᵗ and 1−Beta2ᵗ, t from 1
	Decay, Ratio                   []float32 // by tensor
}

// c returns the constants in C.
func (s *OptStep) c() C.ens_rule {
	return C.ens_rule{rule: C.int(s.Rule), lr: C.float(s.LR), beta1: C.float(s.Beta1), beta2: C.float(s.Beta2),
		rest1: C.float(1 - s.Beta1), rest2: C.float(1 - s.Beta2), eps: C.float(s.Eps), momentum: C.float(s.Momentum), c1: C.float(s.Correct1), c2: C.float(s.Correct2), gscale: C.float(s.GradScale), blend: C.float(s.EMAWeight)}
}

// cRanges returns the ranges in C.
func cRanges(p []ParamRange) *C.ens_piece { return (*C.ens_piece)(unsafe.Pointer(unsafe.SliceData(p))) }

// f64 returns the address of the first value.
func f64(x []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(x))) }

// OptSquares computes Σw² and Σg² of every range, alternating in part, in float64. If w
// is nil, Σw² is 0.
func (p *Pool) OptSquares(part []float64, pieces []ParamRange, w, g []float32) {
	want("part", len(part), 2*len(pieces))
	for _, x := range pieces {
		if x.Lo < 0 || w != nil && x.Hi > len(w) || x.At < 0 || x.At+x.Hi-x.Lo > len(g) {
			panic(fmt.Sprintf("kern: piece %+v of %d parameters and %d gradients", x, len(w), len(g)))
		}
	}
	C.ens_opt_squares(p.ptr(), f64(part), cRanges(pieces), C.long(len(pieces)), f32(w), f32(g))
}

// OptMoments updates the moments of LAMB and computes Σw² and Σu² of every range,
// alternating in part.
func (p *Pool) OptMoments(part []float64, pieces []ParamRange, a *OptArena, s *OptStep) {
	want("part", len(part), 2*len(pieces))
	a.check(pieces)
	r := s.c()
	C.ens_opt_moments(p.ptr(), f64(part), cRanges(pieces), C.long(len(pieces)), &r, f32(s.Decay), f32(a.W), f32(a.M), f32(a.V), f32(a.G))
}

// OptUpdate updates the parameters of all ranges; for LAMB after OptMoments.
func (p *Pool) OptUpdate(pieces []ParamRange, a *OptArena, s *OptStep) {
	a.check(pieces)
	want("ratio", len(s.Ratio), len(s.Decay))
	r := s.c()
	C.ens_opt_move(p.ptr(), cRanges(pieces), C.long(len(pieces)), &r, f32(s.Decay), f32(s.Ratio), f32(a.W), f32(a.M), f32(a.V), f32(a.E), f32(a.G))
}
