// Package pipeline divides the layers of a network over ranks: each rank computes the forward and backward passes of one stage,
// a block of consecutive layers, for one micro-batch after the other.
//
//	s, err := pipeline.Chimera(4, 4, pipeline.ChimeraOptions{}) // tasks of each worker, in order
//	...
//	t, err := s.Time(pipeline.EqualCosts(4, 20*cluster.Millisecond, 40*cluster.Millisecond, cluster.Millisecond))
//	fmt.Println(t.End, t.MeanBubbles(), s.PeakActivations())
//
// Schedules are data. All of them are synchronous: a step has the gradients of the same step without a pipeline.
//
//	GPipe     all forward passes, then all backward passes
//	OneFOneB  forward and backward passes in turn, so few activations are kept (1F1B)
//	Chimera   two pipelines in opposite directions, each in the idle slots of the other
//
// Bubbles are the idle times of workers. With D equal stages, N micro-batches and backward passes twice as long as forward
// passes, of a step:
//
//	GPipe, 1F1B                   (D−1) / (N + D−1)
//	Chimera, N = D                (D−2) / (3N/2 + D−2)
//	Chimera, N > D, DoubleForward (D−2) / (3N/2 + D−2)
//
// A network is divided by the cost of its layers (Layers, Divide), and its training graph into a graph of each stage (Split). Workers run them over the messages of package comm:
//
//	d, err := pipeline.Divide(pipeline.Layers(g, cost), s.Stages, send) // g: samples of one micro-batch, with its loss
//	stages, err := pipeline.Split(g, d)
//	w, err := pipeline.NewWorker(c, s, stages, pipeline.Options{})        // on each rank of c
//	losses, err := w.Step(ctx, step, feed)                              // gradients are in w.Store(pipe)
//
// Gradients have the bits of the same sums without a pipeline, whatever the schedule and the order of messages. A worker keeps the
// activations of micro-batches in transit, as many as the schedule states (Schedule.PeakActivations), or computes them again
// (Options.Recompute). A worker may be a group of ranks with a mesh, which compute shards of its stages (Options.Mesh). A step can compute the Kronecker factors of K-FAC, too (Worker.WithFactors). Batch norm has the statistics of a micro-batch; networks that follow running statistics are refused.
//
// Source: Li and Hoefler 2021, arXiv:2107.06925 (Chimera, and the comparison).
package pipeline
