// Package pipelined computes the training steps of a network on the stages of a pipeline: losses, gradients, and the exchange of
// parameters between the ranks that hold a stage.
//
// A rank holds one stage of each pipe (package spatial/pipeline), and of the optimiser what it sums gradients of:
//
//	n, err := pipelined.Compile(g, store, pipelined.Options{...}) // g: network of a micro-batch; store: of the whole network
//	opt, err := optim.New(store, optim.Options{Ranks: n.Ranks()})
//	loss, err := n.Step(ctx, step, batch)                         // gradients in n.Ranks().Grads()
//	norm, err := opt.Step(rate)
//	err = n.AllGather(store)                                      // before validation and checkpoints
//
// A step equals one that accumulates the micro-batches on one rank, up to the rounding of kernels and weights. The division into
// stages, the schedule and the number of micro-batches determine its bits; launcher, processes and arrival of messages do not.
package pipelined
