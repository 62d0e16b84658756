// Package groups exchanges what groups of ranks learn from their samples of a batch, in steps
// that need not wait for all groups.
//
// A group is a set of ranks that compute the same samples together: those with the same
// coordinate on the axis "data" of the mesh. It trains as a job of its own; the exchange turns
// the gradient of its samples into optimiser steps:
//
//	e, err := groups.New(g, config.Exchange, n, first, seed)
//	...
//	err = e.Start(steps) // up to one that waits for all groups
//	for i := 0; i < steps; i++ {
//		...              // gradient of the samples of this group
//		skipped, err := e.Step(n, share, func(loss, samples float64) error { ... }) // an optimiser step each time
//		i += skipped     // steps that the group leaves out, with train.exchange.skip
//	}
//	err = e.Align(n, steps) // now all ranks have one model
//
// The systems, by train.exchange.system:
//
//	eager  each optimiser step uses a sum of gradients, and late ones are part of a later sum;
//	       all ranks take the same steps
//	wagma  each group takes a step with its own gradient and averages its model with others
//	local  each group takes steps with its own gradient; an outer optimiser takes one for all of them
//
// The partial collectives are those of package partial.
package groups
