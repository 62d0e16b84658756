package kfac

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Tensor is a part of the state of a preconditioner: the running average of a factor, one that waits for Publish, or a factor of
// one of the last two updates; the lower triangle by rows.
type Tensor struct {
	Name   string // output of the training step (pass.LayerFactors.RowsName), with "next." for Publish, "last." or "before." of updates
	Values []float32
}

// parts are the prefixes of the tensors of each factor, and where they are.
func (p *Preconditioner) parts() (prefixes []string, of []func(l *layer) [2][]float32) {
	add := func(prefix string, x func(l *layer) [2][]float32) {
		prefixes, of = append(prefixes, prefix), append(of, x)
	}
	add("", func(l *layer) [2][]float32 { return l.now.average })
	if p.o.History {
		add("last.", func(l *layer) [2][]float32 { return l.history[0] })
		add("before.", func(l *layer) [2][]float32 { return l.history[1] })
	}
	if p.pending {
		add("next.", func(l *layer) [2][]float32 { return l.next.average })
	}
	return prefixes, of
}

// own are the tensors of this rank's layers.
func (p *Preconditioner) own() (out []Tensor) {
	prefixes, of := p.parts()
	for i := range p.layers {
		l := &p.layers[i]
		for k, prefix := range prefixes {
			x := of[k](l)
			out = append(out, Tensor{prefix + l.RowsName(), x[0]}, Tensor{prefix + l.ColsName(), x[1]})
		}
	}
	return out
}

// State returns the running averages, those that wait for Publish, and the factors of the last updates with Options.History. They
// are the memory of the preconditioner, the same on all ranks. With Options.Owners all ranks call it, and rank 0 gets copies of
// those of all ranks, the others their own.
//
// Errors: communication errors.
func (p *Preconditioner) State() (out []Tensor, err error) {
	own := p.own()
	if p.o.Owners == nil {
		return own, nil
	}
	var message []float32
	for _, t := range own {
		message = append(message, t.Values...)
	}
	prefixes, _ := p.parts()
	layers, sizes := p.layersByRank(), make([]int, p.o.Owners.Size())
	for rank, list := range layers {
		for _, l := range list {
			sizes[rank] += len(prefixes) * (op.TriangleSize(l.Rows) + op.TriangleSize(l.Cols))
		}
	}
	err = p.o.Owners.GatherToRoot(message, sizes, func(rank int, x []float32) {
		take := func(name string, side int) {
			n := op.TriangleSize(side)
			out = append(out, Tensor{name, append([]float32(nil), x[:n]...)})
			x = x[n:]
		}
		for _, l := range layers[rank] {
			for _, prefix := range prefixes {
				take(prefix+l.RowsName(), l.Rows)
				take(prefix+l.ColsName(), l.Cols)
			}
		}
	})
	if p.o.Owners.Rank() > 0 {
		out = own
	}
	return out, err
}

// layersByRank lists the layers that each rank owns.
func (p *Preconditioner) layersByRank() [][]pass.LayerFactors {
	out := make([][]pass.LayerFactors, p.o.Owners.Size())
	for _, l := range p.all {
		rank := p.ownerOf[l.Param]
		out[rank] = append(out[rank], l)
	}
	return out
}

// Restore sets the state to that of a State after a number of updates, the last of which waits for Publish if pending is true. It
// computes the inverses in use, which have the same bits as before. value returns a tensor by name.
//
// Errors: a tensor of another size, those of value, and those of Update.
func (p *Preconditioner) Restore(updates uint64, pending bool, value func(name string) ([]float32, error)) error {
	p.updates, p.pending = updates, pending
	for _, t := range p.own() {
		v, err := value(t.Name)
		if err != nil {
			return err
		}
		if len(v) != len(t.Values) {
			return fmt.Errorf("%s has %d values, want %d", t.Name, len(v), len(t.Values))
		}
		copy(t.Values, v)
	}
	if updates == 0 || updates == 1 && pending { // none has been in use
		return nil
	}
	return p.invert((*layer).current)
}
