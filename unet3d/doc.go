// Package unet3d contains the networks: U-Nets, residual and recurrent networks, transformers, and
// the baselines of published comparisons.
//
// Each network is a struct of options whose Build method extends a graph: it takes the builder and
// the input value, and returns the output value. Parameters have the names and shapes of the
// published PyTorch models, so that weights are exchanged without a table of names.
//
//	b := graph.New(seed)
//	x := b.Input("input", graph.Shape{1, 14, 2, 160, 320})
//	b.Output("output", unet3d.UNet{Out: 1, Stages: 3, Periodic: true}.Build(b, x))
//
// Fields have the shape [N C D H W]: batch, channel, level, latitude, longitude. Members of an
// ensemble and leads of a trajectory are rows of the batch, leads innermost: [N·M·T C D H W].
//
// A Kind describes a network for configuration, help and documentation; Kinds lists them.
package unet3d
