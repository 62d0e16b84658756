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

import "unsafe"

// Rule names the formula of an optimiser; see OptStep.
type Rule int

// The rules; their numbers are those of kern.h.
const (
	RuleSGD Rule = iota
	RuleNesterov
	RuleAdam
	RuleAdamW
	RuleLARS
	RuleLAMB
)

// Piece is a run of an arena that lies in one tensor: elements Lo up to Hi. Its
// layout is that of ens_piece.
type Piece struct{ Lo, Hi, Tensor int }

// pieceLen is the most elements of a piece: 64 KiB.
const pieceLen = 16384

// Pieces cuts the tensors of an arena, given by their first elements and ends,
// into pieces in their order. They depend on nothing else, and so neither do the
// bits of sums over them.
func Pieces(tensors [][2]int) []Piece {
	var out []Piece
	for i, t := range tensors {
		for lo := t[0]; lo < t[1]; lo += pieceLen {
			out = append(out, Piece{lo, min(lo+pieceLen, t[1]), i})
		}
	}
	return out
}

// OptArena is the flat memory of a step: parameters W, gradients G, and in the same
// layout the first moment M and where the rule has them the second moment V and the
// running average E of W (nil: none).
type OptArena struct{ W, M, V, E, G []float32 }

// check panics unless all lengths are that of W.
func (a *OptArena) check() {
	want("m", len(a.M), len(a.W))
	want("g", len(a.G), len(a.W))
	if a.V != nil {
		want("v", len(a.V), len(a.W))
	}
	if a.E != nil {
		want("e", len(a.E), len(a.W))
	}
}

// OptStep holds the constants of one step. With g′ = GradScale·g, and decay and
// ratio those of the tensor:
//
//	SGD       d = g′ + decay·w     m = Momentum·m + d     w = w − LR·m
//	Nesterov  d and m as SGD       w = w − LR·(d + Momentum·m)
//	Adam      d = g′ + decay·w     m = β₁m + (1−β₁)d     v = β₂v + (1−β₂)d²
//	          w = w − LR·(m/Correct1)/(√(v/Correct2) + Eps)
//	AdamW     w = w − LR·decay·w, then Adam with d = g′
//	LARS      m = Momentum·m + LR·ratio·(g′ + decay·w)     w = w − m
//	LAMB      m and v as Adam with d = g′     u = (m/Correct1)/(√(v/Correct2) + Eps) + decay·w
//	          w = w − LR·ratio·u
//	E         e = e + Blend·(w − e), after all
type OptStep struct {
	Rule                       Rule
	Beta1, Beta2               float64
	LR, Eps                    float32
	Momentum, GradScale, Blend float32
	Correct1, Correct2         float32   // 1−Beta1ᵗ and 1−Beta2ᵗ, t from 1
	Decay, Ratio               []float32 // by tensor
}

func (s *OptStep) c() C.ens_rule {
	return C.ens_rule{rule: C.int(s.Rule), lr: C.float(s.LR), beta1: C.float(s.Beta1), beta2: C.float(s.Beta2),
		rest1: C.float(1 - s.Beta1), rest2: C.float(1 - s.Beta2), eps: C.float(s.Eps), momentum: C.float(s.Momentum), c1: C.float(s.Correct1), c2: C.float(s.Correct2), gscale: C.float(s.GradScale), blend: C.float(s.Blend)}
}

func cPieces(p []Piece) *C.ens_piece { return (*C.ens_piece)(unsafe.Pointer(unsafe.SliceData(p))) }

func f64(x []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(x))) }

// OptSquares writes Σa² and Σb² of every piece into part, in turns, summed in
// double.
func (p *Pool) OptSquares(part []float64, pieces []Piece, a, b []float32) {
	want("part", len(part), 2*len(pieces))
	want("b", len(b), len(a))
	C.ens_opt_squares(p.ptr(), f64(part), cPieces(pieces), C.long(len(pieces)), f32(a), f32(b))
}

// OptMoments moves the moments of LAMB and writes Σw² and Σu² of every piece into
// part, in turns.
func (p *Pool) OptMoments(part []float64, pieces []Piece, a *OptArena, s *OptStep) {
	want("part", len(part), 2*len(pieces))
	a.check()
	r := s.c()
	C.ens_opt_moments(p.ptr(), f64(part), cPieces(pieces), C.long(len(pieces)), &r, f32(s.Decay), f32(a.W), f32(a.M), f32(a.V), f32(a.G))
}

// OptMove sweeps once over all pieces; for LAMB after OptMoments.
func (p *Pool) OptMove(pieces []Piece, a *OptArena, s *OptStep) {
	a.check()
	want("ratio", len(s.Ratio), len(s.Decay))
	r := s.c()
	C.ens_opt_move(p.ptr(), cPieces(pieces), C.long(len(pieces)), &r, f32(s.Decay), f32(s.Ratio), f32(a.W), f32(a.M), f32(a.V), f32(a.E), f32(a.G))
}
