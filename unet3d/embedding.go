package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// EmbeddingName is the name of the parameter of an Embedding.
const EmbeddingName = MapsPrefix + "embedding"

// Embedding concatenates k trained fields to the channels of x. They have one value for each grid
// point and represent its location. They are initialised with 0. They become different from each
// other because the first layer multiplies them with different weights.
//
// Shape: x [N C D H W] → [N C+k D H W]; parameter [1 k D H W].
// Source: Rasp and Lerch 2018, doi:10.1175/MWR-D-18-0187.1, with grid points for stations.
func Embedding(b *graph.Builder, x graph.Value, k int) graph.Value {
	places := b.ParamOf(graph.Embedding, EmbeddingName, graph.Shape{1, k, x.Dim(2), x.Dim(3), x.Dim(4)}, graph.Zeros())
	ones := make([]float32, x.Dim(0))
	for i := range ones {
		ones[i] = 1
	}
	return op.Concat(b, 1, x, op.Mul(b, places, b.Const("", graph.Shape{x.Dim(0), 1, 1, 1, 1}, ones)))
}
