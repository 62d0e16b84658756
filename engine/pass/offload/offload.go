// Package offload plans training beyond the memory of a device. For every block
// of layers it decides whether the values for the backward pass are kept,
// swapped to host memory, or recomputed. Simulate models the schedule of a
// plan, Search finds the best plan by this model, and CutPoints divides a
// forward pass into blocks.
//
// The package works on numbers only: seconds and bytes of blocks, and the rates
// of a machine. Other units are possible, if rates use the same ones.
//
// Source: KARMA, Wahib et al. 2020, arXiv:2008.11421 (swapping by capacity,
// interleaved with recomputation).
package offload

import "fmt"

// Actions of a plan, one letter per block.
const (
	Keep      = 'K' // stays in memory from the forward to the backward pass
	Recompute = 'R' // freed after the forward pass, recomputed in the backward pass
	// copied to the host after the forward pass, and back before the backward
	// pass
	Swap = 'S'
)

// Block is a sequence of layers of the forward pass.
type Block struct {
	Forward  float64 // time of the forward pass
	Backward float64 // time of the backward pass, without recomputation
	Interior float64 // bytes that only the backward pass of this block needs
}

// Machine is the machine of a plan: one compute unit and, if the rates are not
// zero, a copy engine per direction, which works concurrently.
type Machine struct {
	Memory   float64 // bytes for the interiors of all blocks
	ToHost   float64 // bytes per unit of time; 0 if swapping is not possible
	FromHost float64 // bytes per unit of time; 0 if swapping is not possible
}

// Span is a time interval.
type Span struct{ Start, End float64 }

// Timeline is the result of Simulate: when each block computes, the end of the
// last one, and the largest number of bytes in use at one time.
type Timeline struct {
	Forward, Backward []Span
	Makespan, Peak    float64
}

// release is memory that becomes free at a time.
type release struct{ at, bytes float64 }

// simulation is a simulation in progress. All engines work in order.
type simulation struct {
	m        Machine
	used     float64   // bytes in use
	peak     float64   // largest number of bytes in use
	releases []release // pending, ascending in time
	toHost   float64   // when the copy engine to the host is free
	swapped  []float64 // end of the copy to the host, by block
	timeline Timeline  // intervals simulated so far
}

// release schedules the release of bytes at a later time.
func (c *simulation) release(at, bytes float64) {
	i := len(c.releases)
	for i > 0 && c.releases[i-1].at > at {
		i--
	}
	c.releases = append(c.releases, release{})
	copy(c.releases[i+1:], c.releases[i:])
	c.releases[i] = release{at, bytes}
}

// allocate takes bytes at the earliest time from t at which they are free.
// Memory that is released at a time is available at that time. ok is false if
// it never fits.
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

// forward runs the forward pass of the next block. It returns false if the
// interior never fits.
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
	freeAt := end
	switch letter {
	case Recompute:
		c.release(end, b.Interior)
	case Swap:
		if c.m.ToHost <= 0 || c.m.FromHost <= 0 {
			return false
		}
		freeAt = max(end, c.toHost) + b.Interior/c.m.ToHost
		c.toHost = freeAt
		c.release(freeAt, b.Interior)
	}
	c.swapped = append(c.swapped, freeAt)
	return true
}

// backward runs all backward passes after the last forward pass. Blocks that
// were not kept reserve their memory in the order of the backward pass, so that
// none waits for a later one. It returns false if one never fits.
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
//   - The forward passes run in order, each as soon as its interior fits.
//     Afterwards Keep keeps the interior, Recompute frees it, and Swap copies
//     it to the host and frees it at the end of the copy.
//   - The backward passes run in reverse order. Swapped and recomputed blocks
//     reserve their interior in that order, each as soon as it fits. A swapped
//     block may reserve once it is on the host and the last forward pass has
//     started, a recomputed one once the last forward pass has ended.
//   - The copy from the host starts with the reservation. A recomputed block
//     spends its forward time again before its backward time.
//   - At the end of a backward pass its interior is freed.
//
// ok is false if an interior never fits, or if the plan swaps on a machine
// without copy engines. Simulate panics unless plan has one letter per block.
//
// Cost: O(blocks) with few pending releases.
func Simulate(blocks []Block, m Machine, plan string) (run Timeline, ok bool) {
	if len(plan) != len(blocks) || len(blocks) == 0 {
		panic(fmt.Sprintf("offload: plan has %d letters, want one for each of %d blocks", len(plan), len(blocks)))
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
