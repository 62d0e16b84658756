// Package price predicts the training step of a pipeline on a machine: stages of ranks, of which each may have a mesh, and pipelines
// of data ranks side by side.
//
//	n := price.NewNetwork(g, machine, optimiser) // g: samples of one micro-batch, with its loss
//	p, err := n.Divide(ctx, 2, mesh)             // into two stages, each of ranks with a mesh such as "data:2 lat:2"
//	step, err := p.Step(ctx, schedule, nil)      // of package pipeline
//	fmt.Println(step.Time, step.Idle, step.Memory)
//
// A step is
//
//	passes + sums of gradients over copies of stages and data ranks + optimiser + exchange of parameters
//
// and with K-FAC in the mean over the steps between two updates of the curvature (Curvature)
//
//   - products + (longer passes with factors + their sums + inversions that no idle time hides) / refresh
//
// Passes and their messages follow from the schedule (package pipeline), the time of a stage from that of a step without a pipeline
// (package search), the work in idle times from package filler. Simulate plays a step on a virtual cluster, message by message.
//
// Left out are sums of single values: weights of micro-batches and norms of gradients.
package price
