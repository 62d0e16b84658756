package loader

import (
	"cmp"
	"slices"
)

// Schedule says who reads which sample when, in all epochs of a training.
type Schedule struct {
	Seed    uint64
	Samples int // of the training, from 0
	// Subset, if not nil, are those of the training's samples that are read.
	Subset  []int
	Epochs  int
	Batch   int // samples, of all readers
	Readers int // that share a batch, each a run of it
	// PadLastBatch fills up the last batch of an epoch with the epoch's first samples, so that all
	// readers read in all batches. Else what there is of it is shared out alike.
	PadLastBatch bool
	// Validation samples, numbered behind those of the training, are read by every reader
	// after each epoch; Test samples, numbered behind these, once in the end.
	Validation, Test int
}

// numSamples is the number of samples.
func (s Schedule) numSamples() int { return s.Samples + s.Validation + s.Test }

// Share is the part that a reader has of n samples of a batch, from lo to before hi: as
// large as the others' or one larger, the larger ones first.
func (s Schedule) Share(reader, n int) (lo, hi int) {
	size, more := n/s.Readers, n%s.Readers
	lo = reader*size + min(reader, more)
	hi = lo + size
	if reader < more {
		hi++
	}
	return lo, hi
}

// Epoch is the samples that a reader reads for the training in an epoch, in order.
func (s Schedule) Epoch(reader, epoch int) []int {
	samples := s.Samples
	if s.Subset != nil {
		samples = len(s.Subset)
	}
	order := Order(s.Seed, uint64(epoch), samples)
	var reads []int
	for first := 0; first < samples; first += s.Batch {
		n := s.Batch
		if !s.PadLastBatch {
			n = min(n, samples-first)
		}
		lo, hi := s.Share(reader, n)
		for i := lo; i < hi; i++ {
			k := order[(first+i)%samples]
			if s.Subset != nil {
				k = s.Subset[k]
			}
			reads = append(reads, k)
		}
	}
	return reads
}

// Reads is all samples that a reader reads, in order.
func (s Schedule) Reads(reader int) []int {
	var reads []int
	for epoch := range s.Epochs {
		reads = append(reads, s.Epoch(reader, epoch)...)
		for k := range s.Validation {
			reads = append(reads, s.Samples+k)
		}
	}
	for k := range s.Test {
		reads = append(reads, s.Samples+s.Validation+k)
	}
	return reads
}

// perEpoch is how many of a reader's reads are those of an epoch.
func (s Schedule) perEpoch(reads []int) int {
	if s.Epochs == 0 {
		return 0
	}
	return (len(reads) - s.Test) / s.Epochs
}

// Usage is how often a reader reads a sample, and where in its reads it does so first; −1
// if never.
type Usage struct{ Count, First int }

// usages are those of all samples.
func usages(reads []int, samples int) []Usage {
	d := make([]Usage, samples)
	for i := range d {
		d[i].First = -1
	}
	for at, k := range reads {
		if d[k].Count++; d[k].First < 0 {
			d[k].First = at
		}
	}
	return d
}

// Priority lists the samples that a reader reads: those first that it reads most often, of
// these those first that it needs soonest.
func (s Schedule) Priority(reader int) []int {
	return priority(usages(s.Reads(reader), s.numSamples()))
}

func priority(d []Usage) []int {
	var list []int
	for k := range d {
		if d[k].Count > 0 {
			list = append(list, k)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Or(cmp.Compare(d[b].Count, d[a].Count), cmp.Compare(d[a].First, d[b].First))
	})
	return list
}

// uncached is the place of a sample that is not kept.
const uncached = -1

// Place says where a reader keeps each sample: in the cache of that number, or in none, −1.
// Caches have so many bytes, fastest first, and samples sizes bytes each. They are filled in
// the order of priority; a sample that does not fit closes its cache.
//
// If they have room for all that the reader reads in the first epoch, these come in
// before others: where that is so for all readers, each sample has a keeper when the first
// epoch ends, and the file system is read once.
func (s Schedule) Place(reader int, sizes []int64, caches []int64) []int {
	return s.place(s.Reads(reader), sizes, caches)
}

func (s Schedule) place(reads []int, sizes, caches []int64) []int {
	list := priority(usages(reads, s.numSamples()))
	if s.Epochs == 0 {
		return fillCaches(list, sizes, caches)
	}
	var room int64
	for _, n := range caches {
		room += n
	}
	home, keep := make([]bool, s.numSamples()), make([]bool, s.numSamples())
	for _, k := range reads[:s.perEpoch(reads)] {
		if !home[k] {
			home[k], keep[k] = true, true
			room -= sizes[k]
		}
	}
	var others []int
	for _, k := range list {
		if !home[k] && sizes[k] <= room {
			others, keep[k] = append(others, k), true
			room -= sizes[k]
		}
	}
	for {
		place := fillCaches(slices.DeleteFunc(slices.Clone(list), func(k int) bool { return !keep[k] }), sizes, caches)
		if !slices.ContainsFunc(list, func(k int) bool { return home[k] && place[k] == uncached }) {
			return place
		}
		n := len(others) - 1
		if n < 0 {
			return fillCaches(list, sizes, caches)
		}
		keep[others[n]], others = false, others[:n] // caches do not fill up to the last byte
	}
}

func fillCaches(list []int, sizes, caches []int64) []int {
	at := make([]int, len(sizes))
	for k := range at {
		at[k] = uncached
	}
	cache, used := 0, int64(0)
	for _, k := range list {
		for cache < len(caches) && used+sizes[k] > caches[cache] {
			cache, used = cache+1, 0
		}
		if cache == len(caches) {
			break
		}
		at[k] = cache
		used += sizes[k]
	}
	return at
}

// FetchOrder lists what a cache keeps, by Place, in the order in which the reader needs it
// first.
func FetchOrder(place []int, cache int, reads []int) []int {
	var list []int
	seen := map[int]bool{}
	for _, k := range reads {
		if place[k] == cache && !seen[k] {
			seen[k] = true
			list = append(list, k)
		}
	}
	return list
}

// UniformSizes is n samples of so many bytes.
func UniformSizes(n int, bytes int64) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = bytes
	}
	return sizes
}
