// Package offload plans training beyond the memory of a device: for every block
// of layers it decides whether the values that its gradient needs are kept,
// swapped to the host, or computed again. Simulate is the model of a schedule,
// Search finds the best plan by it, Cut divides a forward pass into blocks.
//
// The package knows numbers only: seconds and bytes of blocks, and the rates of
// a machine. Any units do, if rates are in the same ones.
//
// Source: Wahib et al. 2020, arXiv:2008.11421 (capacity-based selection of what
// is swapped, interleaved with recomputation).
package offload

import "fmt"

// Letters of a plan, one per block.
const (
	Keep      = 'K' // stays in memory from the forward to the backward pass
	Recompute = 'R' // freed after the forward pass, computed again in the backward pass
	Swap      = 'S' // copied to the host after the forward pass, and back
)

// Block is a stretch of the forward pass.
type Block struct {
	Forward  float64 // time of the forward pass
	Backward float64 // time of the backward pass, without a second forward pass
	Interior float64 // bytes that the backward pass needs and that need not be kept
}

// Machine is what a plan runs on: one arithmetic unit and, if the rates are not
// zero, a link in each direction that works beside it.
type Machine struct {
	Memory   float64 // bytes for the interiors of all blocks
	ToHost   float64 // bytes per unit of time; 0 if there is no link
	FromHost float64 // bytes per unit of time; 0 if there is no link
}

// Span is a stretch of time.
type Span struct{ Start, End float64 }

// Timeline is what Simulate finds: when each block computes, the end of the last, and
// the most bytes in use at one time.
type Timeline struct {
	Forward, Backward []Span
	Makespan, Peak    float64
}

// release is memory that becomes free at a time.
type release struct{ at, bytes float64 }

// simulation is a simulation under way. All of its engines take their work in order.
type simulation struct {
	m        Machine
	used     float64
	peak     float64
	releases []release // to come, ascending
	toHost   float64   // when the link to the host is free
	swapped  []float64 // end of the copy to the host, by block
	timeline Timeline
}

// release frees bytes at a time to come.
func (c *simulation) release(at, bytes float64) {
	i := len(c.releases)
	for i > 0 && c.releases[i-1].at > at {
		i--
	}
	c.releases = append(c.releases, release{})
	copy(c.releases[i+1:], c.releases[i:])
	c.releases[i] = release{at, bytes}
}

// allocate takes bytes at the earliest time from t on at which they are there.
// Memory that is freed at a time can be taken at that time.
func (c *simulation) allocate(t, bytes float64) (float64, bool) {
	n := 0
	for ; n < len(c.releases) && (c.releases[n].at <= t || c.used+bytes > c.m.Memory); n++ {
		t = max(t, c.releases[n].at)
		c.used -= c.releases[n].bytes
	}
	c.releases = c.releases[n:]
	if c.used+bytes > c.m.Memory {
		return 0, false
	}
	c.used += bytes
	c.peak = max(c.peak, c.used)
	return t, true
}

// forward runs the forward pass of the next block; false if it never fits.
func (c *simulation) forward(b Block, letter byte) bool {
	var t float64
	if n := len(c.timeline.Forward); n > 0 {
		t = c.timeline.Forward[n-1].End
	}
	t, ok := c.allocate(t, b.Interior)
	if !ok {
		return false
	}
	end := t + b.Forward
	c.timeline.Forward = append(c.timeline.Forward, Span{t, end})
	gone := end
	switch letter {
	case Recompute:
		c.release(end, b.Interior)
	case Swap:
		if c.m.ToHost <= 0 || c.m.FromHost <= 0 {
			return false
		}
		gone = max(end, c.toHost) + b.Interior/c.m.ToHost
		c.toHost = gone
		c.release(gone, b.Interior)
	}
	c.swapped = append(c.swapped, gone)
	return true
}

// backward runs all backward passes after the last forward pass. Blocks that
// were not kept reserve their memory in the order of the backward pass, so that
// none waits for one behind it; false if one never fits.
func (c *simulation) backward(blocks []Block, plan []byte) bool {
	n := len(blocks)
	last := c.timeline.Forward[n-1]
	c.timeline.Backward = make([]Span, n)
	reserved, fromHost, end := last.Start, 0.0, last.End
	for i := n - 1; i >= 0; i-- {
		b := blocks[i]
		start, length := end, b.Backward
		if plan[i] != Keep {
			earliest := max(reserved, c.swapped[i])
			if plan[i] == Recompute {
				earliest = max(reserved, last.End)
				length += b.Forward
			}
			var ok bool
			if reserved, ok = c.allocate(earliest, b.Interior); !ok {
				return false
			}
			if plan[i] == Swap {
				fromHost = max(reserved, fromHost) + b.Interior/c.m.FromHost
				start = max(start, fromHost)
			} else {
				start = max(start, reserved)
			}
		}
		end = start + length
		c.timeline.Backward[i] = Span{start, end}
		c.release(end, b.Interior)
	}
	c.timeline.Makespan, c.timeline.Peak = end, c.peak
	return true
}

// Simulate runs a plan, one letter per block:
//
//   - The forward passes run in order, each as soon as its interior fits. After
//     it, Keep keeps the interior, Recompute frees it, Swap copies it to the host
//     and frees it at the end of the copy.
//   - The backward passes run in reverse order. Swapped and recomputed blocks
//     reserve their interior in that order, each as soon as it fits: a swapped one
//     once it is on the host and the last forward pass has begun, a recomputed one
//     once that has ended. The copy from the host begins with the reservation, a
//     recomputed block spends its forward time again before its backward time.
//   - At the end of a backward pass its interior is freed.
//
// ok is false if an interior never fits, or if the plan swaps without a link.
func Simulate(blocks []Block, m Machine, plan string) (run Timeline, ok bool) {
	if len(plan) != len(blocks) || len(blocks) == 0 {
		panic(fmt.Sprintf("offload: a plan of %d letters for %d blocks", len(plan), len(blocks)))
	}
	c := simulation{m: m}
	for i, b := range blocks {
		if !c.forward(b, plan[i]) {
			return Timeline{}, false
		}
	}
	if !c.backward(blocks, []byte(plan)) {
		return Timeline{}, false
	}
	return c.timeline, true
}
