package prune

// Efficiency is the skill of a forecast per million nonzero weights:
//
//	e = skill / (nonzeros/10⁶)     skill = 1 − CRPS/CRPS of the raw ensemble
//
// Its maximum is not the best network: a tiny network with little skill has a large efficiency. Use
// it together with the curve of skill against nonzeros.
//
// Unit: 1. Better: higher, for networks of similar skill.
// Source: Hoefler et al. 2021, arXiv:2102.00554, section 6, with skill for accuracy.
func Efficiency(skill float64, nonzeros int) float64 { return skill / (float64(nonzeros) / 1e6) }

// HardEfficiency is the efficiency with the quality 1/(1 − skill), which gives more weight to
// improvements at high skill:
//
//	e_h = 1/(1 − skill) / (nonzeros/10⁶)
//
// Unit: 1. Better: higher.
func HardEfficiency(skill float64, nonzeros int) float64 {
	return 1 / (1 - skill) / (float64(nonzeros) / 1e6)
}
