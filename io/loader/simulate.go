package loader

import "slices"

// Policy says what readers keep, and when they fetch.
type Policy int

// The policies that Simulate compares.
const (
	// Clairvoyant keeps what each reader will read most often, and fetches ahead in the
	// order of use.
	Clairvoyant Policy = iota
	// Plain fetches a sample when it is needed, and keeps none.
	Plain
	// DoubleBuffer fetches one batch ahead, and keeps none.
	DoubleBuffer
	// LRU keeps what was read last, in caches of the same size, and fetches ahead.
	LRU
	// Sharded keeps sample k on reader k mod readers, and fetches ahead.
	Sharded
	// Staged copies as much as the caches hold before the first step, each reader its
	// own shard, then does as Sharded.
	Staged
	// InMemory has all samples in the fastest cache from the start: the bound.
	InMemory
)

// Policies lists them.
var Policies = []Policy{Clairvoyant, Plain, DoubleBuffer, LRU, Sharded, Staged, InMemory}

// String is the name in prints.
func (p Policy) String() string {
	return [...]string{"clairvoyant", "plain", "double buffer", "lru", "sharded", "staged", "in memory"}[p]
}

// Result is what a simulation predicts of the slowest reader; bytes are of all readers.
type Result struct {
	Total   float64 // seconds, staging included
	Staging float64 // seconds before the first step
	Stall   float64 // seconds in which the training waits
	Epochs  []float64
	Bytes   [numSources]int64 // by Source
}

// Simulate predicts a training's reads by the model of Dryden et al. 2021, section IV: a
// read takes the time of the fastest place that has the sample, Staging.Threads of them are
// under way together, and the training uses a sample when it is there and the one before is
// done. All readers make their f-th reads together; those that make them from the file
// system share its rate. sizes are bytes by sample.
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

// simulation is readers that go through their reads side by side.
type simulation struct {
	system  *System
	s       Schedule
	sizes   []int64
	policy  Policy
	reads   [][]int     // by reader
	holders [][]holder  // by sample: who is to keep it
	cached  [][]bool    // by reader and sample: it is there
	lru     []*lruCache // of LRU, by reader
}

func (m *simulation) run() Result {
	var out Result
	if m.policy == Staged {
		out.Staging = m.stageAll(&out)
	}
	lines := make([]*timeline, m.s.Readers)
	for r := range lines {
		lines[r] = m.timeline(out.Staging)
	}
	for f := range m.reads[0] { // the first reader has as many reads as any
		times, linked := make([]float64, m.s.Readers), make([]bool, m.s.Readers)
		var waiting []int // for the file system
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

// stageAll copies what is to be kept before the training; it gives the time.
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

// choose is the fastest source that has a sample, of equals the local one before a remote
// one, and its time; that of the file system, which all may want, is known when they have chosen.
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

// recordRead notes that a reader has read a sample.
func (m *simulation) recordRead(reader, k int) {
	switch m.policy {
	case LRU:
		m.lru[reader].read(k)
	case Clairvoyant:
		m.cached[reader][k] = true // if it is a keeper
		if p, ok := owner(k, m.holders[k]); ok {
			m.cached[p.reader][k] = true
		}
	case Sharded:
		for _, p := range m.holders[k] { // whoever reads it first passes it on
			m.cached[p.reader][k] = true
		}
	}
}

// timeline is the clock of one reader: of the threads that fetch, and of the training.
type timeline struct {
	system *System
	plain  bool  // a read begins when the training is done with the sample before
	room   int64 // bytes of samples that are fetched and not used yet
	from   int   // the first sample that is not used yet, of those fetched
	sizes  []int64
	ends   []float64 // when the training is done with each
	ready  float64   // when the last one fetched is there
	link   float64   // when the link to the file system is free
	end    float64   // of the last of ends
	busy   float64
}

func (m *simulation) timeline(start float64) *timeline {
	l := &timeline{system: m.system, plain: m.policy == Plain, room: m.system.Staging.Capacity, ready: start, end: start}
	if m.policy == DoubleBuffer {
		const batches = 2 // one that is used, one that is fetched
		var largest int64
		for _, n := range m.sizes {
			largest = max(largest, n)
		}
		l.room = min(l.room, batches*largest*int64((m.s.Batch+m.s.Readers-1)/m.s.Readers))
	}
	return l
}

// read fetches a sample in time t, over the link to the file system or not, and lets the
// training use it.
func (l *timeline) read(t float64, bytes int64, linked bool) {
	threads := float64(max(l.system.Staging.Threads, 1))
	if l.plain {
		l.ready, threads = l.end, 1
	}
	for l.room < bytes && l.from < len(l.ends) {
		l.ready, l.link = max(l.ready, l.ends[l.from]), max(l.link, l.ends[l.from])
		l.room += l.sizes[l.from]
		l.from++
	}
	l.room -= bytes
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

// lruCache is what a reader has read last, in caches of which the fastest holds the latest.
type lruCache struct {
	sizes, caches []int64
	list          []int // the latest last
}

// cache is where a sample is now.
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

// read makes a sample the latest, and forgets those that fit nowhere now.
func (r *lruCache) read(k int) {
	if i := slices.Index(r.list, k); i >= 0 {
		r.list = slices.Delete(r.list, i, i+1)
	}
	r.list = append(r.list, k)
	for len(r.list) > 0 && r.cache(r.list[0]) == uncached {
		r.list = r.list[1:]
	}
}
