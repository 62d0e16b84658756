package config

import "github.com/ensemble-weather/ensemble/postproc/dist"

// Head is what comes out of a network.
type Head string

// The heads.
const (
	SpreadHead       Head = "spread"       // the full ensemble's spread
	DistributionHead Head = "distribution" // that, and a distribution of the analysis
	MembersHead      Head = "members"      // each member corrected
)

// Family is the distribution that a head gives, by its name in dist.Table.
type Family string

// NormalFamily is the family if nothing is said.
const NormalFamily Family = "normal"

// Row is that of the family in dist.Table.
func (f Family) Row() dist.Row {
	r, _ := dist.RowByID(string(f))
	return r
}

// Loss is what a training lowers: a rule of dist.Table, or a score of members or spreads.
type Loss string

// The losses of distributions.
const (
	CRPSLoss         = Loss(dist.CRPSRule)
	PinballLoss      = Loss(dist.PinballRule)
	CrossEntropyLoss = Loss(dist.CrossEntropyRule)
)

// MembersLoss is the CRPS of members.
const MembersLoss Loss = "crps_members"

// Distances to the full ensemble's spread.
const (
	MSELoss    Loss = "mse"
	L1Loss     Loss = "l1"
	SSIMLoss   Loss = "ssim"
	MSSSIMLoss Loss = "ms_ssim"
)

// SpreadLosses are the distances to the full ensemble's spread that can be lowered.
var SpreadLosses = []Loss{MSELoss, L1Loss, SSIMLoss, MSSSIMLoss}

// Losses are all.
var Losses = append([]Loss{CRPSLoss, PinballLoss, CrossEntropyLoss, MembersLoss}, SpreadLosses...)

// Fairness is that of the CRPS of members (postproc/dist), and of members that were made in two groups.
type Fairness string

// The ways to count the members' mutual distances.
const (
	PlainFairness      Fairness = "plain"
	FairFairness       Fairness = "fair"
	AlmostFairFairness Fairness = "almost_fair"
	CrossPairFairness  Fairness = "cross_pair"
)

// Method is how a network is trained.
type Method string

// The methods.
const (
	JointMethod  Method = "joint"       // one network learns shift, sigma and spread at once
	StagesMethod Method = "three_stage" // bias, then spread, then sigma around the corrected mean
)
