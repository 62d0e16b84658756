package score

// Table lists all scores in the order in which they are computed and printed. A new score
// is one file and one entry here.
var Table = []*Score{
	CRPSGauss, CRPSFamily, CRPSPlain, CRPSFair, CRPSAlmostFair, CRPSReliability, CRPSPotential, CRPSAbove, CRPSExpected, CRPSOverExpected, EECRPSGauss, EECRPSPlain,
	MeanAbsEFI, MeanAbsEFIENS10, SOTUpper, SOTLower,
	RMSE, MAE, Bias, Correlation, LogGauss,
	SpreadScore, SpreadSkill, SpreadRMSE, SpreadSkillBins,
	RankFlatness, PITFlatness,
	Coverage50, Coverage90, IntervalScore90, QuantileScore, QuantileFrequency,
	Brier, BrierFair, BrierSkill, BrierReliability, BrierResolution, BrierUncertainty, ReliabilityDiagram,
	FSS, FSSUseful,
	ROCArea, EconomicValue, RPS, RPSFair, RPSSkill,
	Energy, EnergyFair, Variogram,
	EnergyTime, EnergyTimeFair, VariogramTime,
}

// Default are the ids of the scores computed unless others are selected. They need neither
// thresholds nor higher moments.
var Default = []string{"crps_gauss", "crps_plain", "crps_fair", "rmse", "bias", "spread", "spread_skill", "spread_rmse",
	"spread_skill_bins", "rank_flatness", "pit_flatness"}

// DefaultForLeads are the ids added to Default if members are given at several leads.
var DefaultForLeads = []string{"energy_time", "energy_time_fair", "variogram_time"}

// DefaultForClimate are the ids added to Default if references have the index and quantiles of the climate.
var DefaultForClimate = []string{"eecrps_gauss", "eecrps_plain", "efi", "efi_ens10", "sot_90", "sot_10"}
