//go:build cgo && linux

package train

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	cudakernels "github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
)

// sparsePreferred is a GPU that stores small fields too as large ones, with channels last, on which every
// convolution with a 2:4 filter can run in a sparse kernel, as if it were the fastest.
type sparsePreferred struct {
	*runtest.Float16Backend
	preferred bool
	sparse    int // such kernels
}

func (b *sparsePreferred) Prepare(q backend.Request) (backend.Kernel, error) {
	if a, ok := q.Attrs.(op.FusedConv); ok && a.TwoFour && b.preferred {
		for _, tile := range cudakernels.ConvTilesOf(cudakernels.TwoFour) {
			named := q
			named.Variant = "conv bf16 2:4 " + tile.String()
			if k, err := b.Float16Backend.Prepare(named); err != nil || strings.Contains(k.Name, "2:4") {
				b.sparse++
				return k, err
			}
		}
	}
	return b.Float16Backend.Prepare(q)
}

// TestTwoFourOnDevice trains with 2:4 masks on a GPU, where sparse kernels are demanded. The trained filters
// have the pattern, and the prediction of sparse kernels is that of dense ones up to rounding; other devices
// and float32 have no sparse kernels.
func TestTwoFourOnDevice(t *testing.T) {
	runtest.EmulatedGPU(t)
	tr, samples, err := trainRain(t, rainConfig(t, "train.device=cuda", "train.precision=bf16", "train.networks=1", "train.epochs=2", "model.base=8",
		"prune.method=magnitude", "prune.structure=2:4", "prune.kernels=sparse", "prune.target=0.5", "prune.every=2", "prune.from=10%", "prune.to=60%"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.loop(context.Background()); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
	open := engine.Backends[i].Open
	predict := func(device, precision string, preferred bool) (values []float32, marked, sparse int) {
		wrapped := &sparsePreferred{preferred: preferred}
		engine.Backends[i].Open = func(o engine.Options) (backend.Backend, error) {
			b, err := open(o)
			if err != nil {
				return nil, err
			}
			wrapped.Float16Backend = &runtest.Float16Backend{Backend: b.(*cuda.Backend)}
			return wrapped, nil
		}
		m := untrained(t, tr)
		m.Networks = tr.model.Networks
		defer m.Close()
		o := network.Options(1, device)
		o.Precision = precision
		out, err := m.Predict(context.Background(), o, samples[0].Forecast, m.Task.UsedMembers)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range m.Network.Plan.Graph().Nodes {
			if a, ok := n.Attrs.(op.FusedConv); ok && a.TwoFour {
				marked++
			}
		}
		return slices.Concat(append(out.Parameters, out.Mean)...), marked, wrapped.sparse
	}
	want, marked, _ := predict("cuda", "bf16", false)
	got, again, sparse := predict("cuda", "bf16", true)
	if marked < 4 || again != marked || sparse != marked {
		t.Errorf("%d and %d convolutions are marked, %d have sparse kernels, want all of at least 4", marked, again, sparse)
	}
	for k, v := range want {
		if math.Abs(float64(got[k]-v)) > 0x1p-6*(1+math.Abs(float64(v))) {
			t.Fatalf("number %d is %v in sparse kernels, %v in dense ones", k, got[k], v)
		}
	}
	if _, marked, _ := predict("cpu", "", false); marked != 0 {
		t.Errorf("%d convolutions are marked on a processor", marked)
	}
	if _, _, sparse := predict("cuda", "f32", true); sparse != 0 {
		t.Errorf("%d convolutions of float32 have sparse kernels", sparse)
	}
}
