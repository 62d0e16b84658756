package network

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// HeadSpec describes the output of a network and its loss. Exactly one of the fields is not nil.
type HeadSpec struct {
	Spread       *SpreadSpec       `json:"spread,omitempty"`
	Distribution *DistributionSpec `json:"distribution,omitempty"`
	Members      *MemberHeadSpec   `json:"members,omitempty"`
}

// TrainsSpread reports whether a loss trains the estimated spread of the full ensemble. If none does, that output is the
// one of an untrained network: no forecast has it.
func (s Spec) TrainsSpread() bool {
	return s.Head.Spread != nil || s.Staged() || s.Head.Distribution != nil && s.Head.Distribution.SpreadWeight > 0
}

// SpreadSpec is a head that predicts the spread of the full ensemble.
type SpreadSpec struct {
	Loss config.Loss `json:"loss"` // one of config.SpreadLosses
}

// DistributionSpec is a head that predicts a distribution of the analysis, and the spread of the
// full ensemble.
type DistributionSpec struct {
	Family config.Family `json:"family"`
	// Degree is the degree of a Bernstein quantile function, Bins the number of bins of a
	// histogram; 0 for other families.
	Degree int       `json:"degree,omitempty"`
	Bins   int       `json:"bins,omitempty"`
	Rule   dist.Rule `json:"rule"` // scoring rule used as the loss
	// SpreadWeight is the weight of the squared error of the spread in the loss; 0 leaves it out.
	SpreadWeight float64 `json:"spread_weight,omitempty"`
	// Recalibration is the family that recalibration converts a normal distribution to, as
	// calibrate.distribution; empty for none.
	Recalibration string `json:"recalibration,omitempty"`
	// Thresholds are the events of train.loss.threshold. ThresholdWeight is the weight of their
	// scores in the loss.
	Thresholds      []ensemble.VariableEvent `json:"thresholds,omitempty"`
	ThresholdWeight float64                  `json:"threshold_weight,omitempty"`
}

// MemberHeadSpec is a head that predicts members, each a correction of an input member.
type MemberHeadSpec struct {
	Loss config.Loss `json:"loss"` // crps (of the normal distribution with the members' mean and standard deviation) or crps_members
	// Fairness and Scales are train.loss.fairness and train.loss.scales, for crps_members.
	Fairness config.Fairness `json:"fairness,omitempty"`
	Scales   []float64       `json:"scales,omitempty"`
	// Maps adds trained maps to the shift of members, as model.maps.
	Maps bool `json:"maps,omitempty"`
}

// NewHeadSpec returns the head that a configuration describes.
func NewHeadSpec(c *config.TrainConfig) (h HeadSpec) {
	m, loss := c.Model, c.Train.Train.Loss
	switch m.Head {
	case config.SpreadHead:
		h.Spread = &SpreadSpec{Loss: loss.Kind}
	case config.MembersHead:
		h.Members = &MemberHeadSpec{Loss: loss.Kind, Maps: m.Maps}
		if loss.Kind == config.MembersLoss {
			h.Members.Fairness, h.Members.Scales = loss.Fairness, loss.Scales
		}
	case config.DistributionHead:
		d := &DistributionSpec{Family: m.Family, Rule: dist.Rule(loss.Kind), SpreadWeight: loss.Spread}
		if c.Calibrate.Distribution != config.NoCalibration {
			d.Recalibration = c.Calibrate.Distribution
		}
		switch d.familyRow().Size {
		case dist.Degree:
			d.Degree = m.Degree
		case dist.Bins:
			d.Bins = m.Bins
		}
		if len(loss.Threshold) > 0 {
			d.Thresholds, d.ThresholdWeight = loss.Threshold, loss.ThresholdWeight
		}
		h.Distribution = d
	}
	return h
}

// Name is the value of model.head; empty for none.
func (h HeadSpec) Name() config.Head {
	switch {
	case h.Spread != nil:
		return config.SpreadHead
	case h.Distribution != nil:
		return config.DistributionHead
	case h.Members != nil:
		return config.MembersHead
	}
	return ""
}

// Check refuses a head without or with more than one part, and losses and sizes that do not match
// it.
func (h HeadSpec) Check() error {
	parts := 0
	for _, present := range []bool{h.Spread != nil, h.Distribution != nil, h.Members != nil} {
		if present {
			parts++
		}
	}
	switch d := h.Distribution; {
	case parts != 1:
		return fmt.Errorf("%d heads, want exactly one", parts)
	case h.Spread != nil && spreadLossFuncs[h.Spread.Loss] == nil:
		return fmt.Errorf("head spread does not support the loss %q", h.Spread.Loss)
	case h.Members != nil && h.Members.Loss != config.CRPSLoss && h.Members.Loss != config.MembersLoss:
		return fmt.Errorf("head members does not support the loss %q", h.Members.Loss)
	case d != nil && (!d.familyRow().Head || !d.familyRow().HasRule(d.Rule)):
		return fmt.Errorf("distribution %q does not support the loss %q", d.Family, d.Rule)
	case d != nil && ((d.Degree > 0) != (d.familyRow().Size == dist.Degree) || (d.Bins > 0) != (d.familyRow().Size == dist.Bins)):
		return fmt.Errorf("distribution %q with degree %d and %d bins: invalid sizes", d.Family, d.Degree, d.Bins)
	}
	return nil
}

// Bins is the number of bins of the predicted histograms; 0 for other heads.
func (h HeadSpec) Bins() int {
	if h.Distribution == nil {
		return 0
	}
	return h.Distribution.Bins
}

// Recalibration is that of the distribution; empty for other heads.
func (h HeadSpec) Recalibration() string {
	if h.Distribution == nil {
		return ""
	}
	return h.Distribution.Recalibration
}

// familyRow is the table entry of the family.
func (d *DistributionSpec) familyRow() dist.Row { return d.Family.Row() }

// isLinked reports whether the parameters of the distribution are computed from outputs as for a
// normal distribution. It is false for the normal family itself and for other heads.
func (d *DistributionSpec) isLinked() bool { return d != nil && d.Family != config.NormalFamily }
