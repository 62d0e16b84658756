// Package share lets the convolutions of a network share parameters, within a budget (weight
// sharing). A group of layers has a store of parameters. In every step each layer computes its
// filter from the store, as a linear combination of templates (op.Combine):
//
//	w = Σ_k a_k · T_k     T_k a section of the store with the size of the filter
//
// If the store is smaller than the filter, templates are smaller and are upsampled to the shape of
// the filter.
//
// A network is built as usual. New finds the filters that can be shared and plans the groups.
// Plan.Rewrite replaces the filters in the graph by combinations of the stores. Gradients,
// optimisers, reductions over ranks and checkpoints need no changes, as stores and coefficients are
// ordinary parameters. Plan.Weights computes the filters after training, which gives a network
// without sharing.
//
//	p, err := share.New(g, share.Options{Budget: 0.25})
//	g, err = p.Rewrite(g)
//
// Source: Plummer, Dryden, Frost, Hoefler and Saenko 2020, arXiv:2006.10598 (Shapeshifter networks,
// neural parameter allocation search).
package share
