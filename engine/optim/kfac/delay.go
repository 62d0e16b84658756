package kfac

import "github.com/ensemble-weather/ensemble/internal/exit"

// Begin is Update of which the result is used from Publish on: it computes the new averages, and Invert their inverses, piece
// by piece, in times in which the process is idle. Until then Apply has the inverses of the update before. Options.Delayed is set.
//
// Errors: exit.Bug if an update has not been published; communication errors.
func (p *Preconditioner) Begin(factor func(name string) []float32) error {
	if p.pending || !p.o.Delayed {
		return &exit.Error{Code: exit.Bug, What: "new Kronecker factors before the last ones are in use", Why: "Begin is called twice, or without memory for them", Fix: "report this with the configuration"}
	}
	p.pending = true
	return p.add(factor, (*layer).coming)
}

// Inversion has the remaining pieces of an inversion that this rank computes.
type Inversion struct {
	Factor int // argument of Invert
	Pieces int // calls of Invert
	Cost   int // operations of one
}

// Pending lists the inversions that are left to this rank before Publish, in the order of layers.
func (p *Preconditioner) Pending() (out []Inversion) {
	for i := 0; p.pending && i < len(p.inverted); i++ {
		if !p.isOwn(i) || p.inverted[i] {
			continue
		}
		n := p.layers[i/2].sides()[i%2]
		left, cost := Pieces(n)
		if w := p.sweeps[i]; w != nil {
			left = sweepPieces(n - w.done)
		}
		out = append(out, Inversion{i, left, cost})
	}
	return out
}

// Pieces is the number of pieces of an inversion, and the operations of one.
func Pieces(side int) (pieces, cost int) {
	return sweepPieces(side), side * side * min(side, sweepBlock)
}

// Invert computes the next piece of an inversion of Pending. The result has the bits of Update, whenever the pieces run.
//
// Memory: an inversion that has begun and not ended needs 8 bytes for each value of the factor.
func (p *Preconditioner) Invert(factor int) {
	if p.pending && !p.inverted[factor] {
		p.advance(factor, (*layer).coming)
	}
}

// Publish completes the update that Begin began: it computes the inversions that are left, and Apply uses the results. All ranks
// call it at the same step, which alone determines when inverses change. Without an update it does nothing.
//
// Errors: those of Update.
func (p *Preconditioner) Publish() error {
	if !p.pending {
		return nil
	}
	if err := p.invert((*layer).coming); err != nil {
		return err
	}
	p.pending = false
	for i := range p.layers {
		l := &p.layers[i]
		l.now, l.next = l.next, l.now
	}
	return nil
}

// IsPending reports whether an update waits for Publish.
func (p *Preconditioner) IsPending() bool { return p.pending }
