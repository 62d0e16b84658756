package benchmarks

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// unetLayers are the 3×3×3 convolutions of the 3-D U-Net at base 32, except the last one with a single output
// channel: their channels, and the coarsening of their stage relative to the grid.
var unetLayers = []struct {
	name            string
	in, out, coarse int
}{
	{"enc_conv0", 42, 64, 1}, {"enc_conv1", 64, 64, 1}, {"enc_conv2", 64, 96, 2}, {"enc_conv3", 96, 128, 4},
	{"enc_conv4", 128, 160, 8}, {"enc_conv5", 160, 224, 16}, {"dec_conv5a", 384, 320, 16}, {"dec_conv5b", 320, 320, 16},
	{"dec_conv4a", 448, 224, 8}, {"dec_conv4b", 224, 224, 8}, {"dec_conv3a", 320, 192, 4}, {"dec_conv3b", 192, 192, 4},
	{"dec_conv2a", 256, 128, 2}, {"dec_conv2b", 128, 128, 2}, {"dec_conv1a", 170, 128, 1}, {"dec_conv1b", 128, 64, 1},
}

var (
	sparseCrop = flag.String("crop", "176x352", "field of BenchmarkSparseConv at the finest stage")
	sparsities = []float64{0.5, 0.75, 0.9, 0.95}
)

// keptAtRandom draws the nonzero blocks of a filter: all but the fraction s, rounded down.
func keptAtRandom(w graph.Shape, s float64) op.BlockMask {
	n := (w[0] + op.FilterBlock - 1) / op.FilterBlock * ((w[1] + op.FilterBlock - 1) / op.FilterBlock)
	k := []byte(strings.Repeat("1", n))
	for _, i := range rand.New(rand.NewPCG(uint64(n), 7)).Perm(n)[:int(s*float64(n)+1e-9)] {
		k[i] = '0'
	}
	return op.BlockMask(k)
}

// pair are the fastest kernels for one pass of a convolution: one with all blocks, one with the nonzero blocks only.
type pair struct {
	dev    backend.Backend
	kernel [2]backend.Kernel
	sparse bool // the dispatcher selects the second
}

// passOf returns the request for a pass of a convolution on blocked fields.
func passOf(pass string, x, f graph.Shape, kept op.BlockMask) backend.Request {
	a := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(3, 3, 3), Mask: kept}
	value := func(s graph.Shape, l graph.Layout) backend.Tensor {
		t := backend.Tensor{Shape: s, Layout: l, F32: bigmem.Make[float32](l.Elems(s))}
		for i := range t.F32 {
			t.F32[i] = float32(i%17-8) / 64
		}
		return t
	}
	y := x.Clone()
	y[1] = f[0]
	w, xs, dy := value(f, graph.Plain), value(x, graph.Blocked), value(y, graph.Blocked)
	kept.Clear(w.F32, f)
	q := backend.Request{Op: op.Find("conv3d"), Attrs: a, In: []backend.Tensor{xs, w}, Out: dy}
	switch pass {
	case "data":
		q.Op, q.Attrs, q.In, q.Out = op.Find("conv3d_grad_data"), op.ConvGrad{Conv: a, To: x}, []backend.Tensor{w, dy}, xs
	case "filter":
		q.Op, q.Attrs, q.In, q.Out = op.Find("conv3d_grad_filter"), op.ConvGrad{Conv: a, To: f}, []backend.Tensor{xs, dy}, w
	}
	return q
}

// fastest prepares the kernels of a pass that are fastest by measurement.
func fastest(b *testing.B, dev backend.Backend, q backend.Request) pair {
	cuts, err := dev.(backend.VariantLister).Variants(q)
	if err != nil {
		b.Fatal(err)
	}
	var best [2]*backend.Variant
	for _, c := range cuts {
		i := 0
		if strings.HasPrefix(c.Name, "wino sparse") {
			i = 1
		}
		if best[i] == nil || c.Time < best[i].Time {
			best[i] = &c
		}
	}
	p := pair{dev: dev}
	for i, c := range best {
		if c == nil {
			b.Fatalf("cuts %+v", cuts)
		}
		q.Variant = c.Name
		if err := dev.Do(func() (err error) { p.kernel[i], err = dev.Prepare(q); return err }); err != nil {
			b.Fatal(err)
		}
	}
	p.sparse = best[1].Time < best[0].Time
	return p
}

// times runs both kernels, one after the other, and returns the processor time and the wall-clock time of each.
func (p pair) times(b *testing.B) (used, wall [2]time.Duration) {
	for i, k := range p.kernel {
		err := p.dev.Do(func() error {
			cpu, start := tune.ProcessTime(), time.Now()
			err := k.Run()
			used[i], wall[i] = tune.ProcessTime()-cpu, time.Since(start)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return used, wall
}

// BenchmarkSparseConv runs convolutions alternately with all blocks of a filter and with its nonzero blocks only.
// For each pass it reports the minimum processor time of both in ms, the ratio dense / sparse of these times, and
// the median ratio of the wall-clock times of consecutive runs.
func BenchmarkSparseConv(b *testing.B) {
	var h, w int
	if _, err := fmt.Sscanf(*sparseCrop, "%dx%d", &h, &w); err != nil {
		b.Fatalf("crop %q: %v", *sparseCrop, err)
	}
	for _, l := range unetLayers {
		for _, s := range sparsities {
			for _, pass := range []string{"forward", "data", "filter"} {
				b.Run(fmt.Sprintf("%s/S=%v/%s", l.name, s, pass), func(b *testing.B) {
					threads := runtime.GOMAXPROCS(0)
					dev, err := cpu.Open(cpu.Options{Threads: threads, UseHeuristics: true, Winograd: true, Timings: tune.Open(b.TempDir(), cpu.Machine(threads), nil)})
					if exit.CodeOf(err) == exit.NoDevice {
						b.Skip("skipped: no device: ", err)
					}
					if err != nil {
						b.Fatal(err)
					}
					defer dev.Close()
					x, f := graph.Shape{1, l.in, 2, h / l.coarse, w / l.coarse}, graph.Shape{l.out, l.in, 3, 3, 3}
					kept := keptAtRandom(f, s)
					p := fastest(b, dev, passOf(pass, x, f, kept))
					p.times(b)
					var ratios []float64
					var least [2]time.Duration
					for b.Loop() {
						used, wall := p.times(b)
						ratios = append(ratios, float64(wall[0])/float64(wall[1]))
						for i, t := range used {
							if least[i] == 0 || t < least[i] {
								least[i] = t
							}
						}
					}
					slices.Sort(ratios)
					n, of := kept.Count()
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(100*(1-float64(n)/float64(of)), "%zero")
					b.ReportMetric(float64(least[0])/1e6, "dense-ms")
					b.ReportMetric(float64(least[1])/1e6, "sparse-ms")
					b.ReportMetric(float64(least[0])/float64(least[1]), "ratio")
					b.ReportMetric(ratios[len(ratios)/2], "wall-ratio")
					if !p.sparse {
						b.Log("the dispatcher takes the dense kernel")
					}
				})
			}
		}
	}
}
