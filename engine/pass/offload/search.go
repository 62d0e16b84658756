package offload

import (
	"cmp"
	"slices"
	"strings"
)

// exhaustive is the number of blocks up to which all plans are enumerated.
// width is the number of prefixes that the beam search keeps for more blocks.
const (
	maxExhaustive = 14
	beamWidth     = 48
)

// Search finds the plan with the shortest makespan that uses the given letters:
// "KR" without copy engines, "KRS" with them. Among equal plans it prefers
// fewer R, then fewer S, then the first in alphabetical order. Up to 14 blocks
// the plan is optimal. For more blocks it is the result of a beam search,
// followed by local improvement. ok is false if no plan that fits was found.
//
// Cost: up to 14 blocks exponential in their number in the worst case.
func Search(blocks []Block, m Machine, letters string) (plan string, run Timeline, ok bool) {
	s := search{blocks: blocks, m: m, letters: letters, forwardFrom: make([]float64, len(blocks)+1)}
	for i := len(blocks) - 1; i >= 0; i-- {
		s.forwardFrom[i] = s.forwardFrom[i+1] + blocks[i].Forward
	}
	for _, b := range blocks {
		s.backwardTime += b.Backward
	}
	if len(blocks) <= maxExhaustive {
		s.enumerate(simulation{m: m}, nil, 0)
	} else {
		s.beam()
		s.hillClimb()
	}
	return s.best, s.timeline, s.best != ""
}

// search is a search in progress with the best plan so far.
type search struct {
	blocks       []Block
	m            Machine
	letters      string    // actions that plans may use
	forwardFrom  []float64 // forward time from a block on
	backwardTime float64   // backward time of all blocks
	best         string    // best plan so far; empty if none fits
	timeline     Timeline  // its simulation
}

// try simulates a plan and keeps it if it is the best so far.
func (s *search) try(plan string) (Timeline, bool) {
	run, ok := Simulate(s.blocks, s.m, plan)
	if ok {
		s.keepBest(plan, run)
	}
	return run, ok
}

// keepBest keeps a simulated plan if it is the best so far.
func (s *search) keepBest(plan string, run Timeline) {
	if s.best == "" || cmp.Or(cmp.Compare(run.Makespan, s.timeline.Makespan), compare(plan, s.best)) < 0 {
		s.best, s.timeline = plan, run
	}
}

// compare orders plans of the same makespan.
func compare(a, b string) int {
	return cmp.Or(cmp.Compare(strings.Count(a, "R"), strings.Count(b, "R")),
		cmp.Compare(strings.Count(a, "S"), strings.Count(b, "S")), strings.Compare(a, b))
}

// enumerate extends a prefix, whose forward passes c has simulated, by all
// letters. A prefix is dropped if its lower bound exceeds the best makespan:
// the time so far, the remaining forward and backward passes, and the
// recomputation of the prefix.
func (s *search) enumerate(c simulation, plan []byte, recomputed float64) {
	i := len(plan)
	if i == len(s.blocks) {
		if c.backward(s.blocks, plan) {
			s.keepBest(string(plan), c.timeline)
		}
		return
	}
	for _, l := range []byte(s.letters) {
		next := c
		next.releases = slices.Clone(c.releases)
		next.swapped = slices.Clip(c.swapped)
		next.timeline.Forward = slices.Clip(c.timeline.Forward)
		if !next.forward(s.blocks[i], l) {
			continue
		}
		more := recomputed
		if l == Recompute {
			more += s.blocks[i].Forward
		}
		if s.best != "" && next.timeline.Forward[i].End+s.forwardFrom[i+1]+s.backwardTime+more > s.timeline.Makespan {
			continue
		}
		s.enumerate(next, append(slices.Clip(plan), l), more)
	}
}

// beam extends the best prefixes letter by letter. A prefix is rated by its
// best completion that keeps as many of the last blocks as possible, and frees
// all others.
func (s *search) beam() {
	type start struct {
		plan string
		time float64
	}
	starts := []start{{}}
	for range s.blocks {
		var next []start
		for _, b := range starts {
			for _, l := range s.letters {
				p := b.plan + string(l)
				if t, ok := s.complete(p); ok {
					next = append(next, start{p, t})
				}
			}
		}
		slices.SortFunc(next, func(a, b start) int {
			return cmp.Or(cmp.Compare(a.time, b.time), compare(a.plan, b.plan))
		})
		starts = next[:min(len(next), beamWidth)]
	}
}

// complete is the makespan of the best such completion of a prefix.
func (s *search) complete(plan string) (best float64, ok bool) {
	left := len(s.blocks) - len(plan)
	for _, fill := range s.letters {
		if fill == Keep {
			continue
		}
		for kept := left; kept >= 0; kept-- {
			run, fits := s.try(plan + strings.Repeat(string(fill), left-kept) + strings.Repeat(string(Keep), kept))
			if fits && (!ok || run.Makespan < best) {
				best, ok = run.Makespan, true
			}
			if fits && fill == Recompute {
				break // fewer kept blocks only mean more recomputation
			}
		}
	}
	return best, ok
}

// hillClimb changes one or two letters of the best plan, as long as that
// improves it.
func (s *search) hillClimb() {
	for before := ""; before != s.best; {
		before = s.best
		for i := range s.blocks {
			for _, a := range []byte(s.letters) {
				for j := i; j < len(s.blocks); j++ {
					for _, b := range []byte(s.letters) {
						p := []byte(before)
						p[i] = a
						p[j] = b
						s.try(string(p))
					}
				}
			}
		}
	}
}
