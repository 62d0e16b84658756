// Package share lets the layers of a network share parameters under a budget: convolutions do not own
// their filters, but build them in every step from a store that a group of layers has, as a linear
// combination of templates (op.Combine).
//
// A network is built as it is; New finds the filters that can be shared and plans the groups, and
// Plan.Rewrite puts stores and coefficients in their place. Gradients, optimisers, sums over ranks and
// checkpoints follow, as these are the parameters then. Plan.Weights gives back plain filters.
//
// Source: Plummer, Dryden, Frost, Hoefler and Saenko 2020, arXiv:2006.10598 (Shapeshifter networks; neural
// parameter allocation search). Choices that the paper leaves open are marked.
package share
