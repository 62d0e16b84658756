package kfac

import (
	"errors"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/balance"
)

// ErrNotFinite marks a factor with values that are NaN or infinite.
var ErrNotFinite = errors.New("a Kronecker factor is not finite")

// shareInversions returns the rank that inverts each factor, G and A of each layer in turn.
func (p *Preconditioner) shareInversions() []int {
	layers := make([]pass.LayerFactors, len(p.layers))
	for i := range p.layers {
		layers[i] = p.layers[i].LayerFactors
	}
	ranks := 1
	if p.o.Ranks != nil {
		ranks = p.o.Ranks.Size()
	}
	return balance.LongestFirst(inversionCosts(layers), ranks)
}

// inversionCosts are the costs of the inversions of G and A of each layer in turn: the cubes of their sides.
func inversionCosts(layers []pass.LayerFactors) []int64 {
	costs := make([]int64, 0, 2*len(layers))
	for _, l := range layers {
		r, c := int64(l.Rows), int64(l.Cols)
		costs = append(costs, r*r*r, c*c*c)
	}
	return costs
}

// invert inverts the damped averages of a version that are not inverted yet. Each rank inverts its share, and all get all
// inverses; with Options.Owners each those of its layers.
//
// Errors: on all ranks, if an inversion failed on one; communication errors.
func (p *Preconditioner) invert(of func(*layer) *version) error {
	for i := range p.layers {
		l := &p.layers[i]
		if _, ok := p.dampings(l, of(l)); !ok {
			of(l).inverse = [2][]float32{}
			continue
		}
		for k := range l.sides() {
			p.invertFactor(2*i+k, of)
		}
	}
	clear(p.inverted)
	return p.complete(of)
}

// invertFactor computes the remaining pieces of an inverse if this rank computes it. All ranks allocate it.
func (p *Preconditioner) invertFactor(i int, of func(*layer) *version) {
	for !p.inverted[i] {
		p.advance(i, of)
	}
}

// advance runs the next piece of an inversion.
func (p *Preconditioner) advance(i int, of func(*layer) *version) {
	l, k := &p.layers[i/2], i%2
	v, n := of(l), l.sides()[k]
	damp, ok := p.dampings(l, v)
	if ok && v.inverse[k] == nil {
		v.inverse[k] = make([]float32, n*n)
	}
	if !ok || !p.isOwn(i) {
		p.inverted[i] = true
		return
	}
	if p.sweeps[i] == nil {
		p.sweeps[i] = newSweep(v.average[k], n, damp[k])
	}
	if p.sweeps[i].next() {
		p.sweeps[i].write(v.inverse[k])
		p.sweeps[i], p.inverted[i] = nil, true
	}
}

// isOwn reports whether this rank inverts a factor.
func (p *Preconditioner) isOwn(i int) bool {
	return p.o.Ranks == nil || p.owners[i] == p.o.Ranks.Rank()
}

// complete gives all ranks the inverses of a version. A failed inversion is sent as NaN, or counted, so that all ranks return an
// error.
func (p *Preconditioner) complete(of func(*layer) *version) error {
	bad := ""
	for i := range p.layers {
		for k, x := range of(&p.layers[i]).inverse {
			if x == nil {
				continue
			}
			param := p.layers[i].Param
			if p.o.Ranks != nil {
				if err := p.o.Ranks.Broadcast(p.owners[2*i+k], x); err != nil {
					return fmt.Errorf("inverse factors of %s: %w", param, err)
				}
			}
			if v := float64(x[0]); bad == "" && (math.IsNaN(v) || math.IsInf(v, 0)) {
				bad = param
			}
		}
	}
	if r := p.o.Owners; r != nil {
		failed := []float64{0}
		if bad != "" {
			failed[0] = 1
		}
		if err := r.AllReduce(failed); err != nil {
			return fmt.Errorf("inverse factors: %w", err)
		}
		if bad == "" && failed[0] > 0 {
			bad = "of another rank"
		}
	}
	if bad != "" {
		return fmt.Errorf("layer %s: %w", bad, ErrNotFinite)
	}
	return nil
}
