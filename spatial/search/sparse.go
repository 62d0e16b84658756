package search

import (
	"math"
	"math/bits"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// The messages of a sparse sum besides entries, of package topk: a step counts kept sums twice and finds the global
// threshold, as most steps do.
const (
	countBytes     = 24   // of each rank, twice
	histogramBytes = 2048 // four all-reduces
	histograms     = 4
)

// selectionBytes are the bytes of memory that a sparse sum reads and writes for each value: the gradient is added to the
// residual (12), checked and searched (8), and the result is written (4).
const selectionBytes = 24

// sparseAxes splits the mesh axes of a sparse sum: over the first it is dense.
func sparseAxes(axes []string) (dense, data []string) {
	data = []string{"data"}
	return slices.DeleteFunc(slices.Clone(axes), func(a string) bool { return a == data[0] }), data
}

// entryBytes returns the bytes that a rank of p sends in each of the two phases, for balanced entries.
func entryBytes(k *spatial.Compression, values, p int) float64 {
	size := 8.0
	if k.BFloat16 {
		size = 6
	}
	return size * math.Ceil(k.Density*float64(values)) * float64(p-1) / float64(p)
}

// sum returns the time of a sum over ranks, and the bytes that a rank sends. A sparse one is dense over all axes but data,
// then with density d, n values and p data ranks
//
//	24n/rate of memory + 2(p−1)·α + ⌈log₂p⌉·α·(3 + 4·2) + β(2·8dn(p−1)/p + headers)
//
// Source: Li and Hoefler 2022, arXiv:2201.07598 (latency and volume of Ok-Topk).
func (p *pricer) sum(a *action) (cluster.Time, int64) {
	if !a.sparse {
		return p.m.allReduce(p.over(a.axes), int64(a.values))
	}
	dense, data := sparseAxes(a.axes)
	t, sent := p.m.allReduce(p.over(dense), int64(a.values))
	g := p.over(data)
	link, sharing := p.m.link(g, false)
	ranks, rounds := float64(g.ranks), float64(bits.Len(uint(g.ranks-1)))
	bytes := 2*entryBytes(p.o.Compression, a.values, g.ranks) + (2*countBytes+8)*(ranks-1) + 2*histograms*histogramBytes*(ranks-1)/ranks
	t += seconds(link.time(2*(ranks-1)+(3+2*histograms)*rounds, bytes, sharing))
	if p.m.Bytes > 0 {
		t += seconds(selectionBytes * float64(a.values) / p.m.Bytes)
	}
	return t, sent + int64(bytes)
}

// playSparse sends the messages of a sparse sum with balanced entries; selection takes no time. c is a group of the calling
// task.
func playSparse(groups map[string]*comm.Comm, a *action, c *comm.Comm, k *spatial.Compression) error {
	dense, data := sparseAxes(a.axes)
	if len(dense) > 0 {
		if err := comm.AllReduce(groups[groupName(dense)].In(c), make([]comm.SizeOnly, a.values), comm.Auto); err != nil {
			return err
		}
	}
	g := groups[groupName(data)].In(c)
	p, rank := g.Size(), g.Rank()
	words := int(entryBytes(k, a.values, p)) / 4 / (p - 1) // to one rank
	for _, n := range []int{2, words} {
		var all []comm.Request
		for i := 1; i < p; i++ {
			all = append(all, g.Recv((rank-i+p)%p, 0, make([]comm.SizeOnly, n)), g.Send((rank+i)%p, 0, make([]comm.SizeOnly, n)))
		}
		if err := comm.WaitAll(all...); err != nil {
			return err
		}
	}
	for range histograms {
		if err := comm.AllReduce(g, make([]comm.SizeOnly, histogramBytes/4), comm.Auto); err != nil {
			return err
		}
	}
	for _, n := range []int{countBytes / 4, countBytes / 4, words} {
		if err := comm.AllGatherV(g, make([]comm.SizeOnly, n*p), comm.SplitEvenly(n*p, p), comm.Auto); err != nil {
			return err
		}
	}
	return nil
}
