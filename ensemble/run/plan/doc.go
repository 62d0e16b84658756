// Package plan predicts the cost of a training step on many ranks before they exist: for each mesh times,
// memory and bytes sent on a described machine, and which parallel systems are faster and under which condition ([Run],
// [Strategy]), and how a mesh divides the network ([Split]):
//
//	r, err := plan.Run(ctx, plan.Options{Config: c, Ranks: 64, Scaling: true})
package plan
