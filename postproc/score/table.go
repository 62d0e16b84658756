package score

// Table lists all scores, in the order in which they are computed and printed.
var Table = []*Score{
	CRPSGauss, CRPSPlain, CRPSFair,
	RMSE, Bias, SpreadScore, SpreadSkill, SpreadRMSE,
}
