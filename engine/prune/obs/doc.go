// Package obs removes blocks of the filters of a trained network at once, and changes the remaining weights so that
// the layers' results change least (Optimal Brain Surgeon, for blocks). Nothing is trained.
//
// Layers follow each other in the order of execution. The target of each are its results in the dense network; its inputs
// are those in the network whose earlier layers are pruned already, so that it repairs their errors too. The squared
// error on calibration samples is a quadratic function of the layer's weights:
//
//	c := &obs.Calibration{Filter: filter, MaxSide: 4096}
//	// compile a plan with c.Passes(), then for all samples:
//	c.KeepResults(plan) // after a run with the dense weights
//	c.SetTarget(plan)
//	c.Observe(plan)     // after a run with the pruned weights
//	p, err := c.Problem(weights, bias, 16, 16, damping)
//	removed, err := p.Remove(budget)
//	c.Write(p, weights, bias)
//
// Source: Hassibi and Stork 1993, Second order derivatives for network pruning; Frantar, Singh, Alistarh 2022,
// arXiv:2208.11580, section 4 (layers, squared error, blocks); Zhang, Zou, He, Sun 2015, arXiv:1505.06798 (asymmetric
// reconstruction: inputs of the changed network, results of the original).
package obs
