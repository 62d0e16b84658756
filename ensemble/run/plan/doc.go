// Package plan prices a training step on many ranks before there are any: each mesh with its times, memory and
// bytes sent on a described machine (Run), and how a mesh cuts the networks (Split):
//
//	r, err := plan.Run(ctx, plan.Options{Config: c, Ranks: 64, Scaling: true})
package plan
