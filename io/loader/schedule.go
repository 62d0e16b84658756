package loader

import (
	"cmp"
	"slices"
)

// Schedule defines which reader reads which sample when, in all epochs of a
// training.
type Schedule struct {
	Seed uint64
	// Samples is the number of training samples, numbered from 0.
	Samples int
	Subset  []int // Subset lists the training samples that are read; nil means all.
	Epochs  int
	// Batch is the global batch size in samples.
	Batch int
	// Readers share each batch; every reader reads a contiguous part.
	Readers int
	// PadLastBatch fills the last batch of an epoch with the first samples of the
	// epoch, so that all readers read in all batches. Otherwise the remaining
	// samples are distributed evenly.
	PadLastBatch bool
	// Validation samples, numbered after those of the training, are read by every
	// reader after each epoch. Test samples, numbered after these, are read once at
	// the end.
	Validation, Test int
}

// numSamples returns the number of all samples.
func (s Schedule) numSamples() int { return s.Samples + s.Validation + s.Test }

// Share returns the part of a reader in a batch of n samples, from lo to before hi.
// Parts differ by at most one; the first readers have the larger ones.
func (s Schedule) Share(reader, n int) (lo, hi int) {
	size, more := n/s.Readers, n%s.Readers
	lo = reader*size + min(reader, more)
	hi = lo + size
	if reader < more {
		hi++
	}
	return lo, hi
}

// Epoch returns the training samples that a reader reads in an epoch, in order.
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
		// Each reader takes its part of the global batch, so the batch does not
		// depend on the number of readers.
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

// Reads returns all samples that a reader reads, in order.
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

// perEpoch returns the number of reads of a reader per epoch.
func (s Schedule) perEpoch(reads []int) int {
	if s.Epochs == 0 {
		return 0
	}
	return (len(reads) - s.Test) / s.Epochs
}

// Usage is the number of reads of a sample by a reader, and the position of the
// first one in its reads; −1 if it is never read.
type Usage struct{ Count, First int }

// usages returns the usage of all samples.
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

// Priority lists the samples that a reader reads by descending number of reads,
// then by first use.
func (s Schedule) Priority(reader int) []int {
	return priority(usages(s.Reads(reader), s.numSamples()))
}

// priority sorts samples by usage.
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

// uncached is the placement of a sample in no cache.
const uncached = -1

// Place returns the cache of each sample on a reader, −1 for none. caches holds the
// capacities in bytes, fastest first; sizes holds the bytes of each sample. Caches
// are filled in the order of Priority. A sample that does not fit closes its cache.
//
// If the caches have room for all samples of the first epoch, these have precedence
// over others. If this holds on all readers, each sample is cached somewhere after
// the first epoch, and the file system is read only once.
//
// Source: Dryden et al. 2021, arXiv:2101.08734.
func (s Schedule) Place(reader int, sizes []int64, caches []int64) []int {
	return s.place(s.Reads(reader), sizes, caches)
}

// place is Place for reads that are already computed.
func (s Schedule) place(reads []int, sizes, caches []int64) []int {
	list := priority(usages(reads, s.numSamples()))
	if s.Epochs == 0 {
		return fillCaches(list, sizes, caches)
	}
	var room int64
	for _, n := range caches {
		room += n
	}
	// First the samples of the first epoch, then others by priority while they fit
	// in total.
	inFirst, keep := make([]bool, s.numSamples()), make([]bool, s.numSamples())
	for _, k := range reads[:s.perEpoch(reads)] {
		if !inFirst[k] {
			inFirst[k], keep[k] = true, true
			room -= sizes[k]
		}
	}
	var others []int
	for _, k := range list {
		if !inFirst[k] && sizes[k] <= room {
			others, keep[k] = append(others, k), true
			room -= sizes[k]
		}
	}
	for {
		place := fillCaches(slices.DeleteFunc(slices.Clone(list), func(k int) bool { return !keep[k] }), sizes, caches)
		if !slices.ContainsFunc(list, func(k int) bool { return inFirst[k] && place[k] == uncached }) {
			return place
		}
		n := len(others) - 1
		if n < 0 {
			return fillCaches(list, sizes, caches)
		}
		keep[others[n]], others = false, others[:n] // caches are not filled to the last byte
	}
}

// fillCaches assigns a list of samples to caches in order.
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

// FetchOrder lists the samples of one cache in the order of first use.
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

// UniformSizes returns n sizes of a number of bytes.
func UniformSizes(n int, bytes int64) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = bytes
	}
	return sizes
}
