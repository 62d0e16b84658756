// Package prune sets weights of a network to 0 permanently while it is trained (sparsification).
//
// Two choices are independent. The structure is the shape of the removed units: single weights,
// blocks of channels, or two of every four weights. It decides what a kernel can skip. The method
// and the scope decide which weights are removed: the method scores the weights, the scope is the
// set of weights whose scores are compared.
//
//	layers := prune.Layers(graph, store)      // the filters of its convolutions
//	p, err := prune.New(layers, len(store.Params()), prune.Options{Method: prune.Magnitude, Target: 0.9, From: 100, To: 600, Every: 20})
//	…
//	changed, err := p.Step(step, rate, store.Params(), gradient) // before the optimiser's step
//	if changed {
//		optimizer.SetMask(p.Mask())
//	}
//
// Only filters of convolutions are pruned, never biases or the factors of norms. Every layer keeps
// at least one weight. A layer that reads the input of the network keeps a weight for every input
// channel, as dropping an input variable is a separate decision.
//
// The mask depends on weights, gradients, the seed and the step only. Ranks with the same values
// have the same mask, which Hash verifies. State and Restore carry everything that determines the
// next mask through a checkpoint.
//
// Source: Hoefler et al. 2021, arXiv:2102.00554, and the papers named at each method.
package prune
