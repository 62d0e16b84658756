package optim

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Preconditioner changes the direction of gradients, such as kfac.Preconditioner.
type Preconditioner interface {
	// Apply computes the preconditioned gradient of all parameters that this rank owns, a linear function of g. Both
	// have the layout of moments (ChunkOffsets): without Options.Ranks that of the store's parameters.
	Apply(to, g []float32)
	// Directs reports whether Apply changes the gradient of a parameter.
	Directs(param string) bool
}

// preconditioning is the state of steps with a preconditioner.
type preconditioning struct {
	direction []float32 // preconditioned gradient or moment, in the layout of the moments
	lengths   []float64 // squared lengths of gradients or of AdamW's updates, by tensor
	noDecay   []float32 // zeros, by tensor
}

// checkPreconditioner validates the options of a preconditioner.
func (o *Options) checkPreconditioner() error {
	if o.Preconditioner == nil {
		return nil
	}
	if o.Kind == Adam || o.Kind == LAMB {
		return preconditionerError(string(o.Kind) + " changes the direction of a gradient itself")
	}
	return nil
}

// preconditionerError is the error of an optimiser that cannot have a preconditioner.
func preconditionerError(why string) error {
	return &exit.Error{Code: exit.Usage, What: "the optimiser cannot precondition gradients", Why: why,
		Fix: "use adamw, sgd or lars as the rule of K-FAC, without a sharded optimiser"}
}

// checkWholeTensors refuses a preconditioner if several ranks own a tensor: a direction depends on all of its gradient.
func checkWholeTensors(chunks []Chunk, owners []int) error {
	for i := 1; i < len(owners); i++ {
		if a, b := chunks[i-1], chunks[i]; a.Param == b.Param && owners[i-1] != owners[i] {
			return preconditionerError(fmt.Sprintf("ranks %d and %d have parts of the gradient of %s", owners[i-1], owners[i], b.Param))
		}
	}
	return nil
}

// OwnedEntries returns the tensors of which a rank owns all chunks, with the places of their gradients and moments: the Offset of
// each is that in the layout of ChunkOffsets.
func OwnedEntries(store *engine.Store, owners []int, rank int) (entries []engine.Entry) {
	chunks := Chunks(store)
	places, _ := ChunkOffsets(chunks, owners, rank)
	first := map[string]int{} // offset of the first chunk; −1 for a parameter with chunks of other ranks
	for i, x := range chunks {
		if at, seen := first[x.Param]; !seen {
			first[x.Param] = places[i]
		} else if at >= 0 && places[i] < 0 {
			first[x.Param] = -1
		}
	}
	for _, e := range store.Entries() {
		if at, ok := first[e.Name]; ok && at >= 0 { // chunks of a tensor follow each other: all but the last are multiples of the alignment
			e.Offset = at
			entries = append(entries, e)
		}
	}
	return entries
}

// precondition replaces the gradient of each directed tensor by the preconditioned one u, with the length of the
// gradient, for SGD and LARS:
//
//	g = (|g|/|u|)·u
//
// The lengths of the gradients are those in norms.
//
// Source: Agarwal et al. 2020, arXiv:2002.11803 (grafting).
func (p *Optimizer) precondition() error {
	lengths := p.keepLengths()
	u, err := p.directionOf(p.arena.g)
	if err != nil {
		return err
	}
	for n, t := range p.own {
		if ratio, directed := p.graftRatio(p.ownIndices[n], lengths); directed {
			for k := t.at; k < t.at+t.hi-t.lo; k++ {
				u[k] *= ratio
			}
		}
	}
	p.arena.g = u
	return nil
}

// keepLengths copies the second sums of norms, the squared lengths before preconditioning.
func (p *Optimizer) keepLengths() []float64 {
	c := &p.preconditioning
	if c.lengths == nil {
		c.lengths, c.noDecay = make([]float64, len(p.tensors)), make([]float32, len(p.tensors))
	}
	for i, n := range p.norms {
		c.lengths[i] = n.b
	}
	return c.lengths
}

// graftRatio returns the factor that gives the direction of the tensor of chunk i the squared length in lengths. The second
// sums of norms are those of the direction. directed is false for tensors without a direction of their own.
func (p *Optimizer) graftRatio(i int, lengths []float64) (ratio float32, directed bool) {
	tensor := p.allChunks[i].tensor
	n := p.norms[tensor].b
	if !(n > 0) || !p.o.Preconditioner.Directs(p.chunks[i].Param) {
		return 1, false
	}
	return float32(math.Sqrt(lengths[tensor] / n)), true
}

// directionOf returns x preconditioned and masked, and computes the norms of the result.
//
// Errors: those of reduceNorms.
func (p *Optimizer) directionOf(x []float32) ([]float32, error) {
	if p.preconditioning.direction == nil {
		p.preconditioning.direction = make([]float32, len(p.arena.m))
	}
	u := p.preconditioning.direction
	p.o.Preconditioner.Apply(u, x)
	p.applyMask(u)
	p.sweep.squares(p.part, nil, u)
	return u, p.reduceNorms()
}

// stepGrafted is a step of AdamW whose update of each directed tensor has the direction of the preconditioned first
// moment u and the length of AdamW's own update a:
//
//	w = w·(1 − rate·decay) − rate·(|a|/|u|)·u,   a = m̂/(√v̂ + eps)
//
// The learning rates of AdamW then suit K-FAC too, and other tensors have steps of a matching size.
//
// Source: Agarwal et al. 2020, arXiv:2002.11803 (grafting); Anil et al. 2020, arXiv:2002.09018 (with a
// preconditioner).
func (p *Optimizer) stepGrafted(s *step) error {
	p.keepLengths() // allocates
	decay := s.decay
	s.decay = p.preconditioning.noDecay // the lengths are those of the updates without decay
	p.sweep.moments(p.part, &p.arena, s)
	s.decay = decay
	if err := p.reduceNorms(); err != nil {
		return err
	}
	lengths := p.keepLengths()
	u, err := p.directionOf(p.arena.m)
	if err != nil {
		return err
	}
	rate := float32(s.rate)
	for n, t := range p.own {
		ratio, directed := p.graftRatio(p.ownIndices[n], lengths)
		keep := 1 - rate*decay[t.tensor]
		for k := t.lo; k < t.hi; k++ {
			at := t.at + k - t.lo
			update := ratio * u[at]
			if !directed {
				update = s.update(&p.arena, at)
			}
			p.arena.w[k] = p.arena.w[k]*keep - rate*update
		}
		p.arena.blend(t.lo, t.hi, s.blend)
	}
	return nil
}
