// Package prune chooses which weights of a network become 0 for good, during its training.
//
// Two questions stay apart. In what shape weights go (Structure: single ones, blocks of
// channels, two of each four) decides what a kernel can skip; which of them go (Method, a
// score of each weight, and Scope, where scores compete) decides what the network still can.
//
//	layers := prune.Layers(graph, store)      // the filters of its convolutions
//	p, err := prune.New(layers, len(store.Params()), prune.Options{Method: prune.Magnitude, Target: 0.9, From: 100, To: 600, Every: 20})
//	…
//	changed, err := p.Step(step, rate, store.Params(), gradient) // before the optimiser's step
//	if changed {
//		optimizer.Mask(p.Keep())
//	}
//
// Filters of convolutions are pruned, biases and the scales of norms never are. Every input
// channel of a layer that reads the network's input keeps a weight, as leaving out a variable
// is a decision of its own, and so does every layer.
//
// A mask follows from weights, gradients and (seed, step) alone: ranks that have the same of
// them have the same mask, of which Hash is the proof. State and Restore carry everything
// that decides the next mask through a checkpoint.
//
// Source: Hoefler et al. 2021, arXiv:2102.00554, and the works named at each method.
package prune
