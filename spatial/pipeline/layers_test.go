package pipeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// flops is the cost of an operation at 10¹² operations per second.
func flops(g *graph.Graph) func(n *graph.Node) cluster.Time {
	return func(n *graph.Node) cluster.Time { return cluster.Time(n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)) }
}

// free sends messages in no time.
func free(int64) cluster.Time { return 0 }

// unet is the base-32 network on 2×352×704 points, with 42 channels.
func unet(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	b.Output("y", unet3d.UNet{}.Build(b, b.Input("x", graph.Shape{1, 42, 2, 352, 704})))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The layers of a U-Net, and the bytes that cross a cut: the output of the layer and all skips that the decoder still reads.
func TestLayersOfUNet(t *testing.T) {
	layers := pipeline.Layers(unet(t), flops(unet(t)))
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Name
	}
	want := "enc_conv0 enc_conv1 max_pool enc_conv2 max_pool enc_conv3 max_pool enc_conv4 max_pool enc_conv5 max_pool" +
		" upsample concat dec_conv5a dec_conv5b upsample concat dec_conv4a dec_conv4b upsample concat dec_conv3a dec_conv3b" +
		" upsample concat dec_conv2a dec_conv2b upsample concat dec_conv1a dec_conv1b dec_conv0"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("layers\n%s, want\n%s", got, want)
	}
	const points = 2 * 352 * 704
	skips := int64(4) * (64*points/4 + 96*points/16 + 128*points/64 + 160*points/256) // pooled outputs of stages 1 to 4
	if first := int64(4 * 64 * points / 4); first != 31_719_424 {
		t.Errorf("the first skip has %d bytes, want 31719424", first)
	}
	for name, want := range map[string]int64{"enc_conv0": 4 * 64 * points, "enc_conv5": skips + 4*224*points/256, "dec_conv5a": skips - 4*160*points/256 + 4*320*points/256,
		"dec_conv1a": 4 * 128 * points, "dec_conv0": 0} {
		if got := layers[slices.Index(names, name)].Crossing; got != want {
			t.Errorf("%d bytes cross a cut after %s, want %d", got, name, want)
		}
	}
}

// The convolution dec_conv1a has 582.4 of 1,638.7 GFLOP, so no division into four stages has less than 35.5 % in one of them.
func TestUNetIsUneven(t *testing.T) {
	g := unet(t)
	layers := pipeline.Layers(g, flops(g))
	// two thirds, as one of three levels of each filter is on padding and does not count
	if total := 1.5 * float64(g.FLOPs()) / 1e9; math.Abs(total-1638.7) > 2 {
		t.Errorf("the network has %.1f GFLOP with padding, want 1638.7", total)
	}
	for stages, want := range map[int][2]float64{2: {0.5, 0.53}, 4: {0.355, 0.356}, 8: {0.355, 0.356}} {
		d, err := pipeline.Divide(layers, stages, free)
		if err != nil {
			t.Fatal(err)
		}
		most, sum, parameters := 0.0, 0.0, int64(0)
		for k := range d.Stages() {
			most, sum, parameters = max(most, d.Share(k)), sum+d.Share(k), parameters+d.Parameters(g, k)
			t.Logf("%d stages: %s to %s has %.1f %%, sends %d bytes", stages, d.Stage(k)[0].Name, d.Stage(k)[len(d.Stage(k))-1].Name, 100*d.Share(k), d.Crossing(k))
		}
		if want := int64(unet3d.UNet{}.Parameters(42)); parameters != want {
			t.Errorf("%d stages have %d parameters, want %d", stages, parameters, want)
		}
		if most < want[0] || most > want[1] || sum < 1-1e-12 || sum > 1+1e-12 {
			t.Errorf("%d stages: the largest has %.4f of %.4f, want %g to %g", stages, most, sum, want[0], want[1])
		}
	}
}

// Networks over leads divide in the order of their graph: with all filters of leads, and lead by lead with recurrent cells.
func TestTemporalNetworks(t *testing.T) {
	for _, k := range []*unet3d.Kind{unet3d.TimeDepthKind, unet3d.FactorisedKind, unet3d.ConvLSTMKind, unet3d.AxialKind} {
		b := graph.New(1)
		b.Output("y", k.Build(b, b.Input("x", graph.Shape{4, 6, 1, 16, 32}), unet3d.Layout{Base: 4, Stages: 2, Out: 1, Leads: 4, Periodic: true,
			Recurrent: unet3d.Recurrent{Stages: 1}, Axial: unet3d.Axial{Blocks: 2, Window: 8}}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d, err := pipeline.Divide(pipeline.Layers(g, flops(g)), 4, free)
		if err != nil {
			t.Fatal(err)
		}
		var sum cluster.Time
		for s := range d.Stages() {
			sum += d.Cost(s)
			t.Logf("%s: %s to %s has %.1f %%, sends %d bytes", k.Name, d.Stage(s)[0].Name, d.Stage(s)[len(d.Stage(s))-1].Name, 100*d.Share(s), d.Crossing(s))
		}
		if int64(sum) != g.FLOPs() || d.Crossing(3) != 0 {
			t.Errorf("%s: stages have %d of %d FLOP, the last sends %d bytes", k.Name, sum, g.FLOPs(), d.Crossing(3))
		}
	}
}

// chain is a chain of dense layers of the given widths, with a loss.
func chain(t *testing.T, rows int, widths ...int) *graph.Graph {
	t.Helper()
	b := graph.New(3)
	h := b.Input("x", graph.Shape{rows, widths[0], 1, 1, 4})
	for i, w := range widths[1:] {
		p := b.Param("dense"+string('0'+rune(i))+".weight", graph.Shape{w, h.Dim(1), 1, 1, 1}, graph.HeNormal(h.Dim(1)))
		bias := b.ParamOf(graph.Bias, "dense"+string('0'+rune(i))+".bias", graph.Shape{w}, graph.Zeros())
		h = op.Tanh(b, op.Bias(b, op.Conv3D(b, h, p, op.Conv{}), bias))
	}
	b.Loss(op.MSE(b, h, b.Input("y", h.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The best division of small chains is that of all divisions.
func TestDivideIsBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		widths := make([]int, 3+rng.IntN(6))
		for i := range widths {
			widths[i] = 1 + rng.IntN(40)
		}
		g := chain(t, 2, widths...)
		layers := pipeline.Layers(g, flops(g))
		send := func(bytes int64) cluster.Time { return 5 + cluster.Time(bytes) }
		for stages := 1; stages <= min(4, len(layers)); stages++ {
			d, err := pipeline.Divide(layers, stages, send)
			if err != nil {
				t.Fatal(err)
			}
			slowest := func(cuts []int) (most cluster.Time) {
				x := pipeline.Division{Layers: layers, Cuts: cuts}
				for k := range stages {
					c := x.Cost(k)
					if k > 0 {
						c += send(x.Crossing(k - 1))
					}
					if k < stages-1 {
						c += send(x.Crossing(k))
					}
					most = max(most, c)
				}
				return most
			}
			least := slowest(d.Cuts)
			cuts := make([]int, stages+1)
			cuts[stages] = len(layers)
			var try func(k int)
			try = func(k int) {
				if k == stages {
					if cuts[k-1] < cuts[k] && slowest(cuts) < least {
						t.Errorf("widths %v in %d stages: cuts %v take %d, %v %d", widths, stages, d.Cuts, least, cuts, slowest(cuts))
					}
					return
				}
				for cuts[k] = cuts[k-1] + 1; cuts[k] < len(layers); cuts[k]++ {
					try(k + 1)
				}
			}
			try(1)
		}
	}
}

func TestMoreStagesThanLayers(t *testing.T) {
	g := chain(t, 1, 2, 2)
	layers := pipeline.Layers(g, flops(g))
	if _, err := pipeline.Divide(layers, len(layers)+1, free); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "stages or fewer") {
		t.Errorf("more stages than layers: %v", err)
	}
}
