package config

import "github.com/ensemble-weather/ensemble/postproc/dist"

// Head is the output of a network.
type Head string

// Heads of networks.
const (
	SpreadHead       Head = "spread"       // spread of the full ensemble
	DistributionHead Head = "distribution" // spread, and the distribution of the analysis
	MembersHead      Head = "members"      // corrected members
)

// Family is a distribution family, by its name in dist.Table.
type Family string

// NormalFamily is the default family.
const NormalFamily Family = "normal"

// Row returns the row of the family in dist.Table.
func (f Family) Row() dist.Row {
	r, _ := dist.RowByID(string(f))
	return r
}

// Loss is a loss function: a rule of dist.Table, or a loss of members or spread fields.
type Loss string

// Losses of distributions.
const (
	CRPSLoss         = Loss(dist.CRPSRule)
	PinballLoss      = Loss(dist.PinballRule)
	CrossEntropyLoss = Loss(dist.CrossEntropyRule)
)

// MembersLoss is the CRPS of the corrected members.
const MembersLoss Loss = "crps_members"

// Losses of spread fields: distances from the spread of the full ensemble.
const (
	MSELoss    Loss = "mse"
	L1Loss     Loss = "l1"
	SSIMLoss   Loss = "ssim"
	MSSSIMLoss Loss = "ms_ssim"
)

// SpreadLosses lists the losses of spread fields.
var SpreadLosses = []Loss{MSELoss, L1Loss, SSIMLoss, MSSSIMLoss}

// Losses lists all losses.
var Losses = append([]Loss{CRPSLoss, PinballLoss, CrossEntropyLoss, MembersLoss}, SpreadLosses...)

// Fairness is the estimator of the CRPS of members (postproc/dist).
type Fairness string

// Estimators of the spread term ½ E|X−X′| of the CRPS, from the distances between members.
const (
	PlainFairness      Fairness = "plain"
	FairFairness       Fairness = "fair"
	AlmostFairFairness Fairness = "almost_fair"
	CrossPairFairness  Fairness = "cross_pair"
)

// Method is a training method.
type Method string

// Training methods.
const (
	JointMethod  Method = "joint"       // one network predicts shift, sigma and spread together
	StagesMethod Method = "three_stage" // bias, then spread, then sigma around the corrected mean
)
