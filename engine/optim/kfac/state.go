package kfac

import "fmt"

// Tensor is a part of the state of a preconditioner: the running average of a factor, or a factor of one of
// the last two updates; the lower triangle by rows.
type Tensor struct {
	Name   string // output of the training step (pass.LayerFactors.RowsName), with "last." or "before." of updates
	Values []float32
}

// State returns the running averages, and the factors of the last updates with Options.History. They are the memory
// of the preconditioner, the same on all ranks.
func (p *Preconditioner) State() []Tensor {
	var out []Tensor
	for i := range p.layers {
		l := &p.layers[i]
		out = append(out, Tensor{l.RowsName(), l.rows}, Tensor{l.ColsName(), l.cols})
		if p.o.History {
			for k, prefix := range [...]string{"last.", "before."} {
				out = append(out, Tensor{prefix + l.RowsName(), l.history[k][0]}, Tensor{prefix + l.ColsName(), l.history[k][1]})
			}
		}
	}
	return out
}

// Restore sets the state to that of a State after a number of updates, and computes their
// inverses, which have the same bits as before. value returns a tensor by name.
//
// Errors: a tensor of another size, those of value, and those of Update.
func (p *Preconditioner) Restore(updates uint64, value func(name string) ([]float32, error)) error {
	for _, t := range p.State() {
		v, err := value(t.Name)
		if err != nil {
			return err
		}
		if len(v) != len(t.Values) {
			return fmt.Errorf("%s has %d values, want %d", t.Name, len(v), len(t.Values))
		}
		copy(t.Values, v)
	}
	if p.updates = updates; updates == 0 {
		return nil
	}
	return p.invert()
}
