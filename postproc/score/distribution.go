package score

// IsDistributionCRPS tells whether a score is the CRPS of a network's distribution, of whatever family.
func IsDistributionCRPS(id string) bool { return id == CRPSGauss.ID || id == CRPSFamily.ID }
