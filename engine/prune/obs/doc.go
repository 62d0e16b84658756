// Package obs removes blocks of the filters of a trained network at once, and changes the remaining weights so that
// the layers' results change least (Optimal Brain Surgeon, for blocks). Nothing is trained.
//
// The squared error of a layer's results on calibration samples is a quadratic function of the weights:
//
//	c := &obs.Calibration{}
//	// compile plans with c.Passes(), then for all samples:
//	c.Observe(plan) // adds the Gram matrices of the layers' inputs
//	p := obs.Problem{…, Hessian: c.Hessian(filter, damping)}
//	removed, err := p.Remove(budget)
//
// Source: Hassibi and Stork 1993, Second order derivatives for network pruning; Frantar, Singh, Alistarh 2022,
// arXiv:2208.11580, section 4 (layers, squared error, blocks).
package obs
