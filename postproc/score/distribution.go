package score

// OfDistribution tells whether a score is the CRPS of a network's distribution, of whatever family.
func OfDistribution(id string) bool { return id == CRPSGauss.ID || id == CRPSFamily.ID }
