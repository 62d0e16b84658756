// Package network builds the network of a model as a graph: the body (package unet3d), the head and
// loss for each family of distributions, the arrangement of members and leads, and the
// modifications of its parameters by sharing, pruning and distillation.
//
// A Spec describes a network and is a part of model.json. Compile builds and compiles it:
//
//	n, err := spec.Compile(task, grid, batch, seed, true, options, nil)
//
// Inputs of the graph are named as the fields of task.Batch. Its outputs are named as the
// parameters of the distribution, in units of the error scale (see the constants Out…).
package network
