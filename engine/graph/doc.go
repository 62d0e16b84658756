// Package graph is the static graph of shaped values that a training step is
// compiled from, and its extension by automatic differentiation.
//
// A network is described once with a Builder:
//
//	b := graph.New(seed)
//	x := b.Input("x", graph.Shape{8, 42, 2, 32, 64}) // [N C D H W]
//	w := b.Param("enc_conv0.weight", graph.Shape{64, 42, 3, 3, 3}, graph.HeNormal(42*27))
//	y := op.ReLU(b, op.Conv3D(b, x, w, op.Conv{Pad: op.Same(3, 3, 3)}))
//	b.Output("y", y)
//	g, err := b.Build()
//
// The builder keeps its first error together with the op and the line that
// called it, and Build returns it: there is nothing to check per op and nothing
// panics. Package op has the operations, package engine compiles the graph.
//
// Every value has a shape, an element type and a distribution, which says how
// each axis is cut over a mesh of ranks. Today's plans execute float32 values
// that are replicated; the compiler refuses all others by name.
package graph
