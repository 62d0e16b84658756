package prune

// Efficiency is the skill of a forecast for each million of weights that are not 0,
//
//	e = skill / (nonzeros/10⁶)     skill = 1 − CRPS/CRPS of the raw ensemble
//
// A tiny network without skill to speak of has the largest: it is to be read beside the
// curve of skill against nonzeros.
//
// Source: Hoefler et al. 2021, arXiv:2102.00554, section 6, for forecasts.
func Efficiency(skill float64, nonzeros int) float64 { return skill / (float64(nonzeros) / 1e6) }

// HardEfficiency is that with the quality 1/(1 − skill), as late gains are harder:
//
//	e_h = 1/(1 − skill) / (nonzeros/10⁶)
func HardEfficiency(skill float64, nonzeros int) float64 {
	return 1 / (1 - skill) / (float64(nonzeros) / 1e6)
}
