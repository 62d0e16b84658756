package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// dropout prepares dropout: 0 with probability p, else x/(1−p).
//
// The random key of a step is computed on the device from the step number, so that a
// recording can be repeated for every step. Elements are numbered as in the plain
// tensor: all layouts and backends drop the same ones.
//
// Source: Srivastava et al. 2014, JMLR 15, 1929–1958.
func dropout(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.DropoutParams), q.Out.Shape
	n, channels, points := elems(q.Out), 1, int64(1)
	if q.Out.Layout == graph.ChannelsLast {
		n, channels, points = n/widthLast, s[1], int64(s[2:].Size())
	}
	w := &work{b: b}
	w.call(kernels.Program("dropout.cu", fieldDefines(q.Out)...), "dropout", gridFor(n), at(q.In[0]), at(q.Out), b.step, a.KeyPrefix(q.Seed), a.Threshold(),
		float32(1/(1-a.P)), int32(channels), int32(graph.ChannelsLast.PaddedChannels(channels)), points, n)
	return w.kernel("dropout")
}
