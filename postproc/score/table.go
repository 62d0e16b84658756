package score

// Table lists all scores, in the order in which they are computed and printed.
var Table = []*Score{
	CRPSGauss, CRPSFamily, CRPSPlain, CRPSFair, CRPSAlmostFair, CRPSReliability, CRPSPotential, CRPSAbove, CRPSExpected, CRPSOverExpected, EECRPSGauss, EECRPSPlain,
	MeanAbsEFI, MeanAbsEFIENS10, SOTUpper, SOTLower,
	RMSE, MAE, Bias, Correlation, LogGauss,
	SpreadScore, SpreadSkill, SpreadRMSE, SpreadSkillBins,
	RankFlatness, PITFlatness,
	Coverage50, Coverage90, IntervalScore90,
	Brier, BrierFair, BrierSkill, BrierReliability, BrierResolution, BrierUncertainty, ReliabilityDiagram,
	ROCArea, EconomicValue, RPS, RPSFair, RPSSkill,
	Energy, EnergyFair, Variogram,
	EnergyTime, EnergyTimeFair, VariogramTime,
}

// Default are the scores that are computed if none are chosen: those that need neither
// thresholds nor more than a moment.
var Default = []string{"crps_gauss", "crps_plain", "crps_fair", "rmse", "bias", "spread", "spread_skill", "spread_rmse",
	"spread_skill_bins", "rank_flatness", "pit_flatness"}

// DefaultForLeads are the scores that are computed beside Default where members are given at several leads.
var DefaultForLeads = []string{"energy_time", "energy_time_fair", "variogram_time"}

// DefaultForClimate are the scores that are computed beside Default where references have quantiles of
// the climate and the index.
var DefaultForClimate = []string{"eecrps_gauss", "eecrps_plain", "efi", "efi_ens10", "sot_90", "sot_10"}
