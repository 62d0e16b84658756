package loader

import "slices"

// Policy is a caching and prefetching policy.
type Policy int

// Policies of Simulate.
const (
	// Clairvoyant caches what each reader will read most often, and prefetches in
	// the order of use.
	Clairvoyant  Policy = iota
	Plain               // Plain reads a sample when it is needed and caches none.
	DoubleBuffer        // DoubleBuffer prefetches one batch and caches none.
	LRU                 // LRU caches the most recently used samples and prefetches.
	Sharded             // Sharded caches sample k on reader k mod readers, and prefetches.
	// Staged copies the shard of each reader to its caches before the first step,
	// and then works as Sharded.
	Staged
	InMemory // InMemory has all samples in the fastest cache from the start: the lower bound.
)

// Policies lists all policies.
var Policies = []Policy{Clairvoyant, Plain, DoubleBuffer, LRU, Sharded, Staged, InMemory}

// String returns the name of the policy.
func (p Policy) String() string {
	return [...]string{"clairvoyant", "plain", "double buffer", "lru", "sharded", "staged", "in memory"}[p]
}

// Result is the predicted performance of the slowest reader. Bytes are those of all
// readers.
type Result struct {
	// Total is the time of the training in seconds, including Staging.
	Total float64
	// Staging is the time before the first step in seconds.
	Staging float64
	// Stall is the time in seconds in which training waits for samples.
	Stall float64
	// Epochs holds the seconds of each epoch.
	Epochs []float64
	// Bytes holds the bytes read from each Source, by all readers.
	Bytes [numSources]int64
}

// Simulate predicts the time of a training by the performance model of Dryden et
// al. A read takes the time of the fastest place that has the sample.
// Staging.Threads reads run concurrently. The training uses a sample when it has
// arrived and the previous one is finished:
//
//	end_f = max(ready_f, end_{f−1}) + size_f / Compute
//
// All readers make their f-th reads at the same time; those that read from the file
// system share its rate. sizes holds the bytes of each sample.
//
// Source: Dryden et al. 2021, section IV (performance model), arXiv:2101.08734.
func Simulate(system *System, s Schedule, sizes []int64, policy Policy) Result {
	m := &simulation{system: system, s: s, sizes: sizes, policy: policy}
	caches := make([]int64, len(system.Caches))
	for i, c := range system.Caches {
		caches[i] = c.Capacity
	}
	places := make([][]int, s.Readers)
	for r := range s.Readers {
		reads := s.Reads(r)
		m.reads, m.cached = append(m.reads, reads), append(m.cached, make([]bool, s.numSamples()))
		switch policy {
		case Clairvoyant:
			places[r] = s.place(reads, sizes, caches)
		case Sharded, Staged:
			var shard []int
			for k := r; k < s.numSamples(); k += s.Readers {
				shard = append(shard, k)
			}
			places[r] = fillCaches(shard, sizes, caches)
		case LRU:
			m.lru = append(m.lru, &lruCache{sizes: sizes, caches: caches})
		}
	}
	m.holders = findHolders(places, s.numSamples())
	return m.run()
}

// simulation is the state of all readers.
type simulation struct {
	system  *System
	s       Schedule
	sizes   []int64
	policy  Policy
	reads   [][]int     // by reader
	holders [][]holder  // by sample: the readers that are to cache it
	cached  [][]bool    // by reader and sample: it has been cached
	lru     []*lruCache // by reader, for LRU
}

// run executes all reads and returns the result.
func (m *simulation) run() Result {
	var out Result
	if m.policy == Staged {
		out.Staging = m.stageAll(&out)
	}
	lines := make([]*timeline, m.s.Readers)
	for r := range lines {
		lines[r] = m.timeline(out.Staging)
	}
	for f := range m.reads[0] { // the first reader has the most reads
		times, linked := make([]float64, m.s.Readers), make([]bool, m.s.Readers)
		var waiting []int // readers of the file system
		for r, reads := range m.reads {
			if f >= len(reads) {
				continue
			}
			source, t := m.choose(r, reads[f])
			out.Bytes[source] += m.sizes[reads[f]]
			if times[r] = t; source == FileSystem {
				waiting = append(waiting, r)
			}
		}
		// The rate of the file system is shared by all readers that use it for this
		// read.
		for _, r := range waiting {
			times[r], linked[r] = m.system.shared(len(waiting), m.sizes[m.reads[r][f]]), true
		}
		for r, reads := range m.reads {
			if f < len(reads) {
				lines[r].read(times[r], m.sizes[reads[f]], linked[r])
				m.recordRead(r, reads[f])
			}
		}
	}
	for r, l := range lines {
		if l.end > out.Total {
			out.Total, out.Stall = l.end, l.end-out.Staging-l.busy
			out.Epochs = out.Epochs[:0]
			before := out.Staging
			for e := range m.s.Epochs {
				end := l.ends[(e+1)*m.s.perEpoch(m.reads[r])-1]
				out.Epochs, before = append(out.Epochs, end-before), end
			}
		}
	}
	return out
}

// stageAll fills the caches before training and returns the time in seconds.
func (m *simulation) stageAll(out *Result) float64 {
	bytes := make([]int64, m.s.Readers)
	for k, keepers := range m.holders {
		for _, p := range keepers {
			bytes[p.reader] += m.sizes[k]
			m.cached[p.reader][k] = true
			out.Bytes[FileSystem] += m.sizes[k]
		}
	}
	var longest float64
	for _, n := range bytes {
		longest = max(longest, m.system.shared(m.s.Readers, n))
	}
	return longest
}

// choose returns the fastest source of a sample and its time. A local source has
// precedence over a remote one with equal time. The time of the file system depends
// on the number of readers that use it and is corrected later.
func (m *simulation) choose(reader, k int) (Source, float64) {
	of, has := m.holders[k], func(p holder) bool { return m.cached[p.reader][k] }
	switch m.policy {
	case InMemory:
		return Local, float64(m.sizes[k]) / m.system.Staging.thread(m.system.Staging.Read)
	case LRU:
		of = nil
		if cache := m.lru[reader].cache(k); cache != uncached {
			of, has = []holder{{reader, cache}}, func(holder) bool { return true }
		}
	}
	time := func(p holder) float64 {
		if p.reader == reader {
			return m.system.local(p.cache, m.sizes[k])
		}
		return m.system.remote(p.cache, m.sizes[k])
	}
	least := m.system.shared(m.s.Readers, m.sizes[k])
	best, from := fastestSource(reader, least, of, func(p holder) (float64, bool) { return time(p), has(p) })
	if best != FileSystem {
		least = time(from)
	}
	return best, least
}

// recordRead updates the caches after a read.
func (m *simulation) recordRead(reader, k int) {
	switch m.policy {
	case LRU:
		m.lru[reader].read(k)
	case Clairvoyant:
		m.cached[reader][k] = true // has an effect only if the reader is to cache the sample
		if p, ok := owner(k, m.holders[k]); ok {
			m.cached[p.reader][k] = true
		}
	case Sharded:
		for _, p := range m.holders[k] { // the first reader sends it to its shard
			m.cached[p.reader][k] = true
		}
	}
}

// timeline is the clock of one reader: of the prefetching threads and of training.
type timeline struct {
	system *System
	plain  bool // a read begins when training has finished the previous sample
	// room is the number of free bytes of the staging memory.
	room int64
	// from is the oldest sample in the staging memory.
	from  int
	sizes []int64
	// ends holds the time at which training has finished each sample.
	ends []float64
	// ready is the time at which the last sample has arrived.
	ready float64
	// link is the time at which the link to the file system is free.
	link float64
	end  float64 // last element of ends
	// busy is the total computation time in seconds.
	busy float64
}

// timeline returns the clock of a reader that starts at a time.
func (m *simulation) timeline(start float64) *timeline {
	l := &timeline{system: m.system, plain: m.policy == Plain, room: m.system.Staging.Capacity, ready: start, end: start}
	if m.policy == DoubleBuffer {
		const batches = 2 // one in use, one being read
		var largest int64
		for _, n := range m.sizes {
			largest = max(largest, n)
		}
		l.room = min(l.room, batches*largest*int64((m.s.Batch+m.s.Readers-1)/m.s.Readers))
	}
	return l
}

// read reads a sample in time t and lets training use it. linked reports whether it
// occupies the link to the file system.
func (l *timeline) read(t float64, bytes int64, linked bool) {
	threads := float64(max(l.system.Staging.Threads, 1))
	if l.plain {
		l.ready, threads = l.end, 1
	}
	// A read waits until training has freed enough staging memory.
	for l.room < bytes && l.from < len(l.ends) {
		l.ready, l.link = max(l.ready, l.ends[l.from]), max(l.link, l.ends[l.from])
		l.room += l.sizes[l.from]
		l.from++
	}
	l.room -= bytes
	// With p threads in flight, a sample arrives every 1/p of its time.
	l.ready += (t + l.system.stage(bytes)) / threads
	if linked && l.system.Link > 0 {
		l.link += float64(bytes) / l.system.Link
		l.ready = max(l.ready, l.link)
	}
	use := float64(bytes) / l.system.Compute
	l.end = max(l.ready, l.end) + use
	l.busy += use
	l.sizes, l.ends = append(l.sizes, bytes), append(l.ends, l.end)
}

// lruCache holds the most recently used samples of a reader. The fastest cache
// holds the most recent ones.
type lruCache struct {
	sizes, caches []int64
	list          []int // most recent last
}

// cache returns the cache of a sample, or uncached.
func (r *lruCache) cache(k int) int {
	cache, used := 0, int64(0)
	for i := len(r.list) - 1; i >= 0; i-- {
		for cache < len(r.caches) && used+r.sizes[r.list[i]] > r.caches[cache] {
			cache, used = cache+1, 0
		}
		if cache == len(r.caches) {
			break
		}
		if r.list[i] == k {
			return cache
		}
		used += r.sizes[r.list[i]]
	}
	return uncached
}

// read makes a sample the most recent and drops those that no longer fit.
func (r *lruCache) read(k int) {
	if i := slices.Index(r.list, k); i >= 0 {
		r.list = slices.Delete(r.list, i, i+1)
	}
	r.list = append(r.list, k)
	for len(r.list) > 0 && r.cache(r.list[0]) == uncached {
		r.list = r.list[1:]
	}
}
