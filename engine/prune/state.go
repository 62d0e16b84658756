package prune

import (
	"fmt"
	"slices"
)

// Counters are the numbers of a pruner's state.
type Counters struct {
	Settled int  `json:"settled,omitempty"`
	Final   bool `json:"final,omitempty"`
}

// Tensor is one part of the state of a pruner: of a layer, named by its parameter.
type Tensor struct {
	Name  string // "mask.enc_conv0.weight"
	Shape []int
	Data  any // []uint8 of masks, []float32
}

// parts of the state by the first part of their names. A mask has eight elements to a byte.
const (
	partMask   = "mask."
	partLast   = "last."
	partScores = "scores."
	partHidden = "hidden."
)

// State is what decides the next masks: that it was restored makes no difference. Of ranks that
// share an optimiser all ask for it, as each has a part of the scores; g is as in Step.
//
// Errors: those of other ranks.
func (p *Pruner) State(g Gradient) (Counters, []Tensor, error) {
	var out []Tensor
	for _, l := range p.layers {
		of := func(part string, mask []bool) {
			if mask != nil {
				bits := packed(nil, mask[l.Offset:l.Offset+l.Size()])
				out = append(out, Tensor{part + l.Param, []int{len(bits)}, bits})
			}
		}
		of(partMask, p.keep)
		of(partLast, p.last)
	}
	add := func(part string, x []float32) {
		for _, l := range p.layers {
			out = append(out, Tensor{part + l.Param, []int{l.Size()}, slices.Clone(x[l.Offset : l.Offset+l.Size()])})
		}
	}
	if p.scores != nil && !p.final {
		whole := slices.Clone(p.scores)
		if err := g.Gather(whole); err != nil {
			return Counters{}, nil, fmt.Errorf("scores of pruning: %w", err)
		}
		add(partScores, whole)
	}
	if p.hidden != nil {
		add(partHidden, p.hidden)
	}
	return Counters{p.settled, p.final}, out, nil
}

// Restore goes back to where a State was taken. value gives the data of its tensors by name, nil
// for those that there are not.
//
// Errors: for tensors that are not those of this network.
func (p *Pruner) Restore(c Counters, value func(name string) any) error {
	p.settled, p.final = c.Settled, c.Final
	p.scores, p.hidden, p.last, p.fresh = nil, nil, nil, nil
	mask := func(part string, to []bool) (found bool, err error) {
		for _, l := range p.layers {
			bits, ok := value(part + l.Param).([]uint8)
			if !ok {
				continue
			}
			if len(bits) != ceil(l.Size(), 8) {
				return false, fmt.Errorf("%s%s has %d bytes for %d weights", part, l.Param, len(bits), l.Size())
			}
			for i := range l.Size() {
				to[l.Offset+i] = bits[i/8]>>(i%8)&1 == 1
			}
			found = true
		}
		return found, nil
	}
	floats := func(part string) ([]float32, error) {
		var to []float32
		for _, l := range p.layers {
			x, ok := value(part + l.Param).([]float32)
			if !ok {
				continue
			}
			if len(x) != l.Size() {
				return nil, fmt.Errorf("%s%s has %d values for %d weights", part, l.Param, len(x), l.Size())
			}
			if to == nil {
				to = make([]float32, p.n)
			}
			copy(to[l.Offset:], x)
		}
		return to, nil
	}
	p.keep = slices.Repeat([]bool{true}, p.n)
	found, err := mask(partMask, p.keep)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("there is no mask")
	}
	last := slices.Repeat([]bool{true}, p.n)
	if found, err = mask(partLast, last); err != nil {
		return err
	}
	if found {
		p.last = last
	}
	if p.scores, err = floats(partScores); err != nil {
		return err
	}
	p.hidden, err = floats(partHidden)
	return err
}
