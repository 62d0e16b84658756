// Package network builds the network of a model as a graph of the engine: its body (package unet3d), its heads and
// losses by family of distributions, what makes it one of members or of leads, and what of its parameters is shared,
// pruned or taught. A Spec describes it:
//
//	n, err := spec.Compile(task, grid, batch, seed, true, options, nil)
package network
