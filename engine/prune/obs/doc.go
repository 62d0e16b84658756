// Package obs removes blocks of the filters of a trained network at once, and changes the remaining weights so that
// its results change least (Optimal Brain Surgeon, for blocks). Nothing is trained.
//
// The squared error of a layer's results on calibration samples is a quadratic function of its weights. Blocks are chosen in
// the dense network, from the last layer to the first: those that increase it least, weighted by the importance of the
// layer's results.
//
//	c := &obs.Calibration{Filter: filter, MaxSide: 4096, OnlyInputs: true}
//	// compile a plan with c.Passes(); after a run for each sample:
//	c.Observe(plan)
//	p, err := c.Problem(weights, bias, 16, 16, damping)
//	p.RowWeights = importance.Rows(layer)
//	removals, err := p.Remove(budget) // in order, for Allocate
//
// Then the layers lose them in the order of execution. The target of each are its results in the dense network; its inputs
// are those in the network whose earlier layers are pruned already, so that it repairs their errors too:
//
//	c := &obs.Calibration{Filter: filter, MaxSide: 4096}
//	c.KeepResults(plan) // after a run with the dense weights
//	c.SetTarget(plan)
//	c.Observe(plan)     // after a run with the pruned weights
//	p, err := c.Problem(weights, bias, 16, 16, damping)
//	err = p.Fit(blocks)
//	c.Write(p, weights, bias)
//
// Source: Hassibi and Stork 1993, Second order derivatives for network pruning; Frantar, Singh, Alistarh 2022,
// arXiv:2208.11580, section 4 (layers, squared error, blocks); Yu et al. 2018, arXiv:1711.05908 (importance); Zhang, Zou, He,
// Sun 2015, arXiv:1505.06798 (asymmetric reconstruction: inputs of the changed network, results of the original).
package obs
