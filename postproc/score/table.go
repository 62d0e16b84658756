package score

// Table lists all scores, in the order in which they are computed and printed.
var Table = []*Score{
	CRPSGauss, CRPSFamily, CRPSPlain, CRPSFair, CRPSAlmostFair, CRPSReliability, CRPSPotential, CRPSAbove, EECRPSGauss, EECRPSPlain,
	RMSE, MAE, Bias, Correlation, LogGauss,
	SpreadScore, SpreadSkill, SpreadRMSE, SpreadSkillBins,
	RankFlatness, PITFlatness,
	Coverage50, Coverage90, IntervalScore90,
	Brier, BrierFair, BrierSkill, BrierReliability, BrierResolution, BrierUncertainty, ReliabilityDiagram,
	ROCArea, EconomicValue, RPS, RPSFair, RPSSkill,
	Energy, EnergyFair, Variogram,
}

// Default are the scores that are computed if none are chosen: those that need neither
// thresholds nor more than a moment.
var Default = []string{"crps_gauss", "crps_plain", "crps_fair", "rmse", "bias", "spread", "spread_skill", "spread_rmse",
	"spread_skill_bins", "rank_flatness", "pit_flatness"}
