//go:build cgo && linux

package kern

/*
#cgo noescape ens_chain
#cgo nocallback ens_chain
#include "kern.h"
*/
import "C"

import (
	"fmt"
	"slices"
)

// Limits of a chain.
const (
	MaxChain         = C.ENS_CHAIN_LINKS    // links
	MaxChainOperands = C.ENS_CHAIN_OPERANDS // operands
)

// ChainFunc is an elementwise function in a chain.
//
// The CRPS of a normal distribution is, with z = (c − a)/b,
//
//	b (z (2Φ(z) − 1) + 2φ(z) − 1/√π)
//
// with derivatives 1 − 2Φ(z) by a and 2φ(z) − 1/√π by b.
//
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1, equation 5; op.GaussianCRPS.
type ChainFunc int

// The functions that are neither Unary nor Binary: scale·a + shift; a/b, or 0 where b
// is 0; the CRPS of a normal distribution with mean a and standard deviation b at c,
// and its derivatives.
const (
	ChainAffine     ChainFunc = C.ENS_CHAIN_AFFINE
	ChainSafeDiv    ChainFunc = C.ENS_CHAIN_SAFE_DIV
	ChainCRPS       ChainFunc = C.ENS_CHAIN_CRPS
	ChainCRPSdMu    ChainFunc = C.ENS_CHAIN_CRPS_DMU
	ChainCRPSdSigma ChainFunc = C.ENS_CHAIN_CRPS_DSIGMA
)

// ChainUnary returns the link f(a).
func ChainUnary(f Unary) ChainFunc { return C.ENS_CHAIN_UNARY + ChainFunc(f) }

// ChainGrad returns the link b·f′(a); a is the operand that the derivative reads
// (UnaryGrad).
func ChainGrad(f Unary) ChainFunc { return C.ENS_CHAIN_GRAD + ChainFunc(f) }

// ChainBinary returns the link a op b.
func ChainBinary(op Binary) ChainFunc { return ChainFunc(op) }

// ChainLink is one function of a chain. Args are the numbers of its operands: those of
// the chain from 0 on, followed by the results of earlier links.
type ChainLink struct {
	F            ChainFunc
	Args         []int
	Scale, Shift float32 // of ChainAffine
}

// ChainOperand describes how an operand is read. Without Dims it has the shape and
// storage type of the result. Otherwise it is float32 and broadcast: the result is
// divided into axes of sizes Dims, outermost first, and the operand has the strides
// Steps along them, 0 where it repeats. The last stride must be 0 or 1.
type ChainOperand struct{ Dims, Steps []int }

// Chain is a prepared chain of elementwise functions. Intermediate values stay in
// registers.
type Chain struct {
	c        C.ens_program
	operands int
	lens     [MaxChainOperands]int // least length of each operand
}

// NewChain prepares a chain for a result of n values. With b16 the result and the
// operands without Dims are bfloat16. It panics if the chain exceeds MaxChain or
// MaxChainOperands.
func NewChain(n int, b16 bool, operands []ChainOperand, links []ChainLink) *Chain {
	if len(operands) > MaxChainOperands || len(links) == 0 || len(links) > MaxChain {
		panic(fmt.Sprintf("kern: chain of %d links with %d operands", len(links), len(operands)))
	}
	c := &Chain{operands: len(operands)}
	c.c.n, c.c.links, c.c.b16 = C.long(n), C.int(len(links)), flag(b16)
	for k, o := range operands {
		c.access(k, o, n)
	}
	c.assign(links)
	return c
}

// SetPadding declares that the result is a blocked field, whose padding channels stay zero
// even if an operand that all channels share is NaN or infinite.
func (c *Chain) SetPadding(s Blocked) {
	c.c.padded = [3]C.long{C.long(s.Cells()), C.long(s.Blocks()), C.long(s.C % Block)}
}

// access sets how operand k is read.
func (c *Chain) access(k int, o ChainOperand, n int) {
	in := &c.c.in[k]
	c.lens[k] = n
	if len(o.Dims) == 0 {
		in.b16 = c.c.b16
		return
	}
	volume, last := 1, 0
	for i, d := range o.Dims {
		in.d[i], in.step[i] = C.long(d), C.long(o.Steps[i])
		volume *= d
		last += (d - 1) * o.Steps[i]
	}
	if volume != n || len(o.Steps) != len(o.Dims) || slices.Min(o.Steps) < 0 || o.Steps[len(o.Steps)-1] > 1 {
		panic(fmt.Sprintf("kern: operand %d of a chain of %d values: axes %v, steps %v", k, n, o.Dims, o.Steps))
	}
	in.axes = C.int(len(o.Dims))
	c.lens[k] = last + 1
}

// assign gives each link a register for its result: the lowest one whose value no later
// link reads.
func (c *Chain) assign(links []ChainLink) {
	last := make([]int, len(links)) // link that reads the result last
	for k, l := range links {
		for _, a := range l.Args {
			if a < 0 || a >= c.operands+k {
				panic(fmt.Sprintf("kern: link %d of a chain reads value %d", k, a))
			}
			if r := a - c.operands; r >= 0 {
				last[r] = k
			}
		}
	}
	var register, holds []int // by link; link by register
	for k, l := range links {
		to := &c.c.link[k]
		to.f, to.scale, to.shift = C.int(l.F), C.float(l.Scale), C.float(l.Shift)
		for i := range to.arg {
			to.arg[i] = C.ENS_CHAIN_NONE
		}
		for i, a := range l.Args {
			to.arg[i] = C.int(-1 - a)
			if a >= c.operands {
				to.arg[i] = C.int(register[a-c.operands])
			}
		}
		free := slices.IndexFunc(holds, func(r int) bool { return last[r] <= k })
		if free < 0 {
			free, holds = len(holds), append(holds, 0)
		}
		holds[free], register = k, append(register, free)
		to.to = C.int(free)
	}
}

// Chain computes y from the operands x. y may alias operands without Dims.
func (p *Pool) Chain(c *Chain, y Stored, x []Stored) {
	want("y", y.n, int(c.c.n))
	want("operands", len(x), c.operands)
	var in C.ens_operands
	for k, v := range x {
		atLeast("operand", v.n, c.lens[k])
		if (v.b16 != (c.c.in[k].b16 != 0)) || y.b16 != (c.c.b16 != 0) {
			panic("kern: a tensor of a chain is stored as another type")
		}
		in.x[k] = v.ptr
	}
	C.ens_chain(p.ptr(), y.ptr, in, &c.c)
}
