package prune

import (
	"fmt"
	"slices"
)

// Counters are the numbers of a pruner's state.
type Counters struct {
	StableEpochs int  `json:"stable_epochs,omitempty"`
	Final        bool `json:"final,omitempty"`
}

// Tensor is one part of the state of a pruner: of a layer, named by its parameter.
type Tensor struct {
	Name  string // "mask.enc_conv0.weight"
	Shape []int
	Data  any // []uint8 of masks, []float32
}

// parts of the state by the first part of their names. A mask has eight elements to a byte.
const (
	partMask     = "mask."
	partLastMask = "last."
	partScores   = "scores."
	partLatent   = "hidden."
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
				bits := packBits(nil, mask[l.Offset:l.Offset+l.Size()])
				out = append(out, Tensor{part + l.Param, []int{len(bits)}, bits})
			}
		}
		of(partMask, p.mask)
		of(partLastMask, p.lastMask)
	}
	add := func(part string, x []float32) {
		for _, l := range p.layers {
			out = append(out, Tensor{part + l.Param, []int{l.Size()}, slices.Clone(x[l.Offset : l.Offset+l.Size()])})
		}
	}
	if p.scores != nil && !p.final {
		whole := slices.Clone(p.scores)
		if err := g.AllGather(whole); err != nil {
			return Counters{}, nil, fmt.Errorf("scores of pruning: %w", err)
		}
		add(partScores, whole)
	}
	if p.latent != nil {
		add(partLatent, p.latent)
	}
	return Counters{p.stableEpochs, p.final}, out, nil
}

// Restore goes back to where a State was taken. value gives the data of its tensors by name, nil
// for those that there are not.
//
// Errors: for tensors that are not those of this network.
func (p *Pruner) Restore(c Counters, value func(name string) any) error {
	p.stableEpochs, p.final = c.StableEpochs, c.Final
	p.scores, p.latent, p.lastMask, p.regrown = nil, nil, nil, nil
	mask := func(part string, to []bool) (found bool, err error) {
		for _, l := range p.layers {
			bits, ok := value(part + l.Param).([]uint8)
			if !ok {
				continue
			}
			if len(bits) != ceilDiv(l.Size(), 8) {
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
	p.mask = slices.Repeat([]bool{true}, p.n)
	found, err := mask(partMask, p.mask)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("there is no mask")
	}
	last := slices.Repeat([]bool{true}, p.n)
	if found, err = mask(partLastMask, last); err != nil {
		return err
	}
	if found {
		p.lastMask = last
	}
	if p.scores, err = floats(partScores); err != nil {
		return err
	}
	p.latent, err = floats(partLatent)
	return err
}
