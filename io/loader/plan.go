package loader

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Pass is one traversal of samples by all readers.
type Pass struct {
	// Common lists the samples that every reader reads, in this order; nil if
	// readers read different samples.
	Common []int
	Own    [][]int // Own lists the samples of each reader if Common is nil.
}

// reads returns the samples of a reader, in order.
func (p Pass) reads(reader int) []int {
	if p.Common != nil {
		return p.Common
	}
	return p.Own[reader]
}

// Passes returns the passes of a training from an epoch on: for each epoch the
// training samples, which readers share, and the validation samples, which every
// reader reads; then the test samples.
func (s Schedule) Passes(from int) []Pass {
	var all []Pass
	for epoch := from; epoch < s.Epochs; epoch++ {
		own := make([][]int, s.Readers)
		for r := range own {
			own[r] = s.Epoch(r, epoch)
		}
		all = append(all, Pass{Own: own})
		if s.Validation > 0 {
			all = append(all, Pass{Common: consecutive(s.Samples, s.Validation)})
		}
	}
	if s.Test > 0 {
		all = append(all, Pass{Common: consecutive(s.Samples+s.Validation, s.Test)})
	}
	return all
}

// consecutive returns n numbers from first on.
func consecutive(first, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i
	}
	return list
}

// room is the number of samples that fit the caches of a reader. A reader that
// takes no requests is absent from the plan of others.
type room struct {
	memory, disk int64
	absent       bool
}

// plan decides what a reader keeps. Every sample has one home: the reader that reads
// it from the file system for all readers, and keeps it in the room of its caches.
// So no two readers use their room for the same sample, unless all samples fit.
//
// The home knows all accesses of all readers to its samples, in order. Each access
// belongs to a use; between two uses a sample is kept or read again. Which samples are kept is the
// offline optimum: at each use the sample whose next use is furthest away gives way,
// which may be the one that was just read (Belady 1966, doi:10.1147/sj.52.0078, with bypass).
//
// All readers compute the homes and copies of all, so nothing is sent.
type plan struct {
	readers int   // readers that take part
	home    []int // by sample
	// copies marks samples of other homes that this reader keeps, because its
	// memory exceeds the samples of which it is the home.
	copies []bool
	uses   []uses // by sample; empty for those of other homes
	// resident marks samples that were in memory before and stay until their first
	// use.
	resident []bool
	onDisk   []bool // samples with a copy on disk
	disk     []int  // these samples in order of first use
	files    int    // reads of the file system by this reader if every access is as planned
}

// uses lists the planned uses of a sample, and the position in it.
type uses struct {
	list []use
	next int // first use that has not begun
	left int // accesses of the use in progress that are to come
	keep bool
}

// use is a number of accesses close to each other: those of all readers in a common
// pass, or a single one.
type use struct {
	accesses int
	keep     bool // until the next use
	pass, at int  // position in the passes
}

// before reports whether a use begins before another.
func (u use) before(v use) bool {
	return cmp.Or(cmp.Compare(u.pass, v.pass), cmp.Compare(u.at, v.at)) < 0
}

// begin counts one access. more reports that others of the same use follow, keep that the
// sample is used again while there is room for it. An access beyond the plan is taken
// for the first of a common pass.
func (u *uses) begin(readers int) (more, keep bool) {
	if u.left == 0 {
		u.left, u.keep = readers, false
		if u.next < len(u.list) {
			u.left, u.keep = u.list[u.next].accesses, u.list[u.next].keep
			u.next++
		}
	}
	u.left--
	return u.left > 0, u.keep
}

// newPlan plans passes for a reader. home is that of an earlier plan, or nil. held
// reports whether a sample is in memory already.
func newPlan(passes []Pass, samples, reader int, rooms []room, home []int, held func(k int) bool) *plan {
	p := &plan{home: home, uses: make([]uses, samples), resident: make([]bool, samples), onDisk: make([]bool, samples)}
	for _, r := range rooms {
		if !r.absent {
			p.readers++
		}
	}
	if home == nil {
		p.home = assignHomes(passes, samples, rooms)
	}
	copies := make([][]bool, len(rooms))
	for r := range rooms {
		copies[r] = p.planCopies(passes, r, rooms[r])
	}
	p.copies = copies[reader]
	p.collectUses(passes, reader, rooms, copies)
	if rooms[reader].disk > 0 {
		p.fillCaches(rooms[reader])
	} else {
		p.fillMemory(rooms[reader].memory, held)
	}
	return p
}

// assignHomes returns the home of each sample. Homes are distributed in proportion to
// the room of readers, within any run of consecutive samples, so that each has its
// share of training, validation and test. Among the readers whose turn it is, the
// one that reads the sample most often is its home.
func assignHomes(passes []Pass, samples int, rooms []room) []int {
	reads := make([][]int32, len(rooms))
	weights, total := make([]float64, len(rooms)), 0.0
	for r, x := range rooms {
		reads[r] = make([]int32, samples)
		if !x.absent {
			weights[r] = max(1, math.Min(float64(x.memory)+float64(x.disk), float64(samples)))
			total += weights[r]
		}
	}
	for _, p := range passes {
		for r, list := range p.Own {
			for _, k := range list {
				reads[r][k]++
			}
		}
	}
	home, load := make([]int, samples), make([]float64, len(rooms))
	for k := range home {
		best := -1
		for r := range rooms {
			if load[r]+1 > math.Ceil(float64(k+1)*weights[r]/total) {
				continue
			}
			if best < 0 || reads[r][k] > reads[best][k] || reads[r][k] == reads[best][k] && load[r]*weights[best] < load[best]*weights[r] {
				best = r
			}
		}
		home[k] = best
		load[best]++
	}
	return home
}

// planCopies marks the samples of other homes that a reader keeps: those that it
// reads most often, in the memory that its own samples leave.
func (p *plan) planCopies(passes []Pass, reader int, has room) []bool {
	copies := make([]bool, len(p.home))
	left := has.memory
	for _, r := range p.home {
		if r == reader {
			left--
		}
	}
	if left <= 0 || has.absent {
		return copies
	}
	var reads []int
	for _, pass := range passes {
		reads = append(reads, pass.reads(reader)...)
	}
	for _, k := range priority(usages(reads, len(p.home))) {
		if left > 0 && p.home[k] != reader {
			copies[k] = true
			left--
		}
	}
	return copies
}

// collectUses lists the uses of the reader's samples: of each pass those that reach
// it. A reader that keeps a copy requests a sample once.
func (p *plan) collectUses(passes []Pass, reader int, rooms []room, copies [][]bool) {
	requested := make([]map[int]bool, len(rooms))
	for r := range requested {
		requested[r] = map[int]bool{}
	}
	// reaches reports whether an access of a reader reaches the home.
	reaches := func(r, k int) bool {
		if p.home[k] != reader || rooms[r].absent || copies[r][k] && requested[r][k] {
			return false
		}
		requested[r][k] = true
		return true
	}
	for n, pass := range passes {
		for at, k := range pass.Common {
			u := use{pass: n, at: at}
			for r := range rooms {
				if reaches(r, k) {
					u.accesses++
				}
			}
			if u.accesses > 0 {
				p.uses[k].list = append(p.uses[k].list, u)
			}
		}
		longest := 0
		for _, list := range pass.Own {
			longest = max(longest, len(list))
		}
		for at := range longest {
			for r, list := range pass.Own {
				if at < len(list) && reaches(r, list[at]) {
					p.uses[list[at]].list = append(p.uses[list[at]].list, use{accesses: 1, pass: n, at: at})
				}
			}
		}
	}
}

// fillCaches plans memory and disk: the samples with the most uses stay in memory for
// good, the next ones on disk. A sample that moved between them would be read again.
func (p *plan) fillCaches(has room) {
	var list []int
	for k, u := range p.uses {
		if len(u.list) > 0 {
			list = append(list, k)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(len(p.uses[b].list), len(p.uses[a].list)) })
	for i, k := range list {
		switch {
		case int64(i) < has.memory:
			p.resident[k] = true
			for n := range p.uses[k].list {
				p.uses[k].list[n].keep = true
			}
			p.files++
		case int64(i)-has.memory < has.disk:
			p.onDisk[k], p.disk = true, append(p.disk, k)
			p.files++
		default:
			p.files += len(p.uses[k].list)
		}
	}
	slices.SortFunc(p.disk, func(a, b int) int {
		if p.uses[a].list[0].before(p.uses[b].list[0]) {
			return -1
		}
		return 1
	})
}

// keptSample is a sample in memory while a plan is made.
type keptSample struct {
	k     int
	until use   // its next use
	keep  *bool // of its last use, or resident
}

// keptSamples is a heap of the samples in memory, with the furthest next use first.
type keptSamples []keptSample

func (h keptSamples) Len() int           { return len(h) }
func (h keptSamples) Less(i, j int) bool { return h[j].until.before(h[i].until) }
func (h keptSamples) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop implement heap.Interface.
func (h *keptSamples) Push(x any) { *h = append(*h, x.(keptSample)) }
func (h *keptSamples) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// fillMemory plans the memory by Belady's rule. A sample that is held but has no room
// is read again at its next use.
//
// Cost: O(n log n) for n uses.
func (p *plan) fillMemory(room int64, held func(k int) bool) {
	type event struct{ k, n int }
	var events []event
	var kept keptSamples // those whose next use has passed stay at the end
	inMemory, count := make([]bool, len(p.uses)), int64(0)
	// keep adds a sample, and drops the one with the furthest next use if there is
	// no room.
	keep := func(x keptSample) {
		heap.Push(&kept, x)
		inMemory[x.k] = true
		*x.keep = true
		if count++; count > room {
			y := heap.Pop(&kept).(keptSample)
			inMemory[y.k], *y.keep = false, false
			count--
		}
	}
	for k, u := range p.uses {
		for n := range u.list {
			events = append(events, event{k, n})
		}
		if len(u.list) > 0 && held(k) {
			keep(keptSample{k, u.list[0], &p.resident[k]})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		x, y := p.uses[a.k].list[a.n], p.uses[b.k].list[b.n]
		return cmp.Or(cmp.Compare(x.pass, y.pass), cmp.Compare(x.at, y.at), cmp.Compare(a.k, b.k))
	})
	for _, e := range events {
		list := p.uses[e.k].list
		if inMemory[e.k] {
			inMemory[e.k] = false
			count--
		} else {
			p.files++
		}
		if e.n+1 < len(list) {
			keep(keptSample{e.k, list[e.n+1], &list[e.n].keep})
		}
	}
}
