// Package graph describes the computation of a training step or a prediction as
// a static graph of values, and extends it by reverse-mode automatic
// differentiation.
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
// The builder keeps its first error, with the operation and the source line
// that called it. Build returns this error, so single calls need no error
// check. Nothing panics.
//
// Every value has a shape, an element type, a memory layout and a distribution
// over the mesh of ranks. Package op defines the operations. Package engine
// compiles and runs the graph.
//
// Plans execute float32 values that every rank holds completely. The compiler
// rejects other element types and distributions, unless a pass outside the
// engine replaces them.
package graph
