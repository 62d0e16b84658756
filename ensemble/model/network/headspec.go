package network

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// HeadSpec is what comes out, and the loss of it: one of its parts, the others being nil.
type HeadSpec struct {
	Spread       *SpreadSpec       `json:"spread,omitempty"`
	Distribution *DistributionSpec `json:"distribution,omitempty"`
	Members      *MemberHeadSpec   `json:"members,omitempty"`
}

// SpreadSpec is a head that gives the full ensemble's spread.
type SpreadSpec struct {
	Loss config.Loss `json:"loss"` // one of config.SpreadLosses
}

// DistributionSpec is a head that gives a distribution of the analysis, and the full ensemble's spread.
type DistributionSpec struct {
	Family config.Family `json:"family"`
	// Degree is that of a Bernstein quantile function, Bins those of a histogram; 0 of others.
	Degree int       `json:"degree,omitempty"`
	Bins   int       `json:"bins,omitempty"`
	Rule   dist.Rule `json:"rule"` // the score of it that is the loss
	// SpreadWeight is the weight of the squared distance of spreads beside it.
	SpreadWeight float64 `json:"spread_weight,omitempty"`
	// Recalibration says what calibration makes of a normal distribution, as calibrate.distribution does; empty is nothing.
	Recalibration string `json:"recalibration,omitempty"`
	// Thresholds are the events of train.loss.threshold, and ThresholdWeight the weight of the scores
	// of what lies there.
	Thresholds      []ensemble.VariableEvent `json:"thresholds,omitempty"`
	ThresholdWeight float64                  `json:"threshold_weight,omitempty"`
}

// MemberHeadSpec is a head that gives members, each of which is a corrected one of the input.
type MemberHeadSpec struct {
	Loss config.Loss `json:"loss"` // crps, of their mean and standard deviation, or crps_members
	// Fairness is that of crps_members, as train.loss.fairness, and Scales its train.loss.scales.
	Fairness config.Fairness `json:"fairness,omitempty"`
	Scales   []float64       `json:"scales,omitempty"`
	// Maps adds to members what is learned of each point, as model.maps.
	Maps bool `json:"maps,omitempty"`
}

// NewHeadSpec is the head of a configuration.
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

// Name is that of the head; empty for none.
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

// Check refuses what is no head, or one of several.
func (h HeadSpec) Check() error {
	parts := 0
	for _, there := range []bool{h.Spread != nil, h.Distribution != nil, h.Members != nil} {
		if there {
			parts++
		}
	}
	switch d := h.Distribution; {
	case parts != 1:
		return fmt.Errorf("%d heads, and a network has one", parts)
	case h.Spread != nil && spreadLossFuncs[h.Spread.Loss] == nil:
		return fmt.Errorf("a spread with the loss %q", h.Spread.Loss)
	case h.Members != nil && h.Members.Loss != config.CRPSLoss && h.Members.Loss != config.MembersLoss:
		return fmt.Errorf("members with the loss %q", h.Members.Loss)
	case d != nil && (!d.familyRow().Head || !d.familyRow().HasRule(d.Rule)):
		return fmt.Errorf("a distribution %q with the loss %q", d.Family, d.Rule)
	case d != nil && ((d.Degree > 0) != (d.familyRow().Size == dist.Degree) || (d.Bins > 0) != (d.familyRow().Size == dist.Bins)):
		return fmt.Errorf("a distribution %q of degree %d with %d bins", d.Family, d.Degree, d.Bins)
	}
	return nil
}

// Bins are those of the histograms that come out; 0 of other heads.
func (h HeadSpec) Bins() int {
	if h.Distribution == nil {
		return 0
	}
	return h.Distribution.Bins
}

// Recalibration are those of the distribution that comes out; empty of other heads.
func (h HeadSpec) Recalibration() string {
	if h.Distribution == nil {
		return ""
	}
	return h.Distribution.Recalibration
}

// familyRow is that of the family.
func (d *DistributionSpec) familyRow() dist.Row { return d.Family.Row() }

// isLinked tells whether there is a distribution whose parameters are made of the outputs of a network, which are those of a normal one.
func (d *DistributionSpec) isLinked() bool { return d != nil && d.Family != config.NormalFamily }
