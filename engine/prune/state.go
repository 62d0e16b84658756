package prune

import (
	"fmt"
	"slices"
)

// Counters are the integers of a pruner's state.
type Counters struct {
	StableEpochs int  `json:"stable_epochs,omitempty"` // successive epochs with similar masks
	Final        bool `json:"final,omitempty"`         // the mask does not change any more
	// Of SoftThreshold: changes of thresholds, and the sum of the learning rates since the last.
	ThresholdUpdates int     `json:"threshold_updates,omitempty"`
	ThresholdRates   float64 `json:"threshold_rates,omitempty"`
}

// Tensor is a tensor of a pruner's state. It belongs to one layer.
type Tensor struct {
	Name  string // kind and parameter, as in "mask.enc_conv0.weight"
	Shape []int
	Data  any // []uint8 for masks, eight elements in a byte; else []float32
}

// Prefixes of the names of tensors in the state.
const (
	partMask     = "mask."
	partLastMask = "last."
	partTrained  = "trained."
	partScores   = "scores."
	partLatent   = "hidden."
	partSoft     = "threshold." // scale, threshold and moments of a layer
)

// State returns everything that determines the next masks. A pruner that was restored from it
// continues bit for bit. All ranks that share an optimiser must call it, as each holds a part of
// the scores. g is as in Step.
//
// Errors: communication errors of g.
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
		of(partTrained, p.trained)
	}
	add := func(part string, x []float32) {
		for _, l := range p.layers {
			out = append(out, Tensor{part + l.Param, []int{l.Size()}, slices.Clone(x[l.Offset : l.Offset+l.Size()])})
		}
	}
	if p.scores != nil && !p.final {
		whole := slices.Clone(p.scores)
		if err := g.AllGather(whole); err != nil {
			return Counters{}, nil, fmt.Errorf("pruning scores: %w", err)
		}
		add(partScores, whole)
	}
	if p.latent != nil {
		add(partLatent, p.latent)
	}
	for at, x := range p.soft.layers {
		out = append(out, Tensor{partSoft + p.layers[at].Param, []int{4}, []float32{x.scale, x.tau, x.first, x.second}})
	}
	return Counters{p.stableEpochs, p.final, p.soft.updates, p.soft.rates}, out, nil
}

// Restore sets the pruner to a State. value returns the data of a tensor by name; nil if there is
// none.
//
// Errors: tensors that do not match the layers of this network.
func (p *Pruner) Restore(c Counters, value func(name string) any) error {
	p.stableEpochs, p.final = c.StableEpochs, c.Final
	p.scores, p.latent, p.lastMask, p.regrown = nil, nil, nil, nil
	p.soft = softThresholds{updates: c.ThresholdUpdates, rates: c.ThresholdRates}
	for at, l := range p.layers {
		if x, ok := value(partSoft + l.Param).([]float32); ok {
			if len(x) != 4 {
				return fmt.Errorf("%s%s: %d values, want 4", partSoft, l.Param, len(x))
			}
			if p.soft.layers == nil {
				p.soft.layers = make([]layerThreshold, len(p.layers))
			}
			p.soft.layers[at] = layerThreshold{scale: x[0], tau: x[1], first: x[2], second: x[3]}
		}
	}
	mask := func(part string, to []bool) (found bool, err error) {
		for _, l := range p.layers {
			bits, ok := value(part + l.Param).([]uint8)
			if !ok {
				continue
			}
			if len(bits) != ceilDiv(l.Size(), 8) {
				return false, fmt.Errorf("%s%s: %d bytes do not match %d weights", part, l.Param, len(bits), l.Size())
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
				return nil, fmt.Errorf("%s%s: %d values, want %d", part, l.Param, len(x), l.Size())
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
		return fmt.Errorf("the checkpoint has no pruning mask")
	}
	last := slices.Repeat([]bool{true}, p.n)
	if found, err = mask(partLastMask, last); err != nil {
		return err
	}
	if found {
		p.lastMask = last
	}
	trained := slices.Repeat([]bool{true}, p.n)
	if found, err = mask(partTrained, trained); err != nil {
		return err
	}
	if p.trained = nil; found {
		p.trained = trained
	}
	if p.scores, err = floats(partScores); err != nil {
		return err
	}
	p.latent, err = floats(partLatent)
	return err
}
