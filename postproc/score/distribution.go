package score

// IsDistributionCRPS reports whether a score is the CRPS of a predicted distribution, of any family.
func IsDistributionCRPS(id string) bool { return id == CRPSGauss.ID || id == CRPSFamily.ID }
