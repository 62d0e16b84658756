package loader

// System is what readers fetch from and keep samples in. Rates are bytes per second.
type System struct {
	// FileSystem is the rate of the shared file system in all, by the readers that
	// fetch from it together.
	FileSystem Rate
	// Link is the most that the threads of one reader have from the file system together;
	// 0 sets no bound.
	Link float64
	// Network is the rate between two readers.
	Network float64
	// Staging is the memory from which the training takes samples.
	Staging Cache
	// Caches keep samples on a reader's node, fastest first: memory, disks.
	Caches []Cache
	// Decode is the rate at which a sample is made ready, Compute that at which the
	// training uses samples up.
	Decode, Compute float64
}

// Cache is a class of storage of one reader.
type Cache struct {
	Capacity    int64
	Threads     int // that fetch into it
	Read, Write Rate
}

// Rate is a rate measured for some numbers of threads, or of readers, ascending; between
// them it is interpolated, and beyond the ends it stays.
type Rate []RatePoint

// RatePoint is the rate of so many threads together.
type RatePoint struct {
	Threads int
	Bytes   float64 // per second
}

// ConstantRate is a rate that does not depend on threads.
func ConstantRate(bytes float64) Rate { return Rate{{1, bytes}} }

// At is the rate of n threads together; 0 if nothing was measured.
func (r Rate) At(n int) float64 {
	for i, m := range r {
		switch {
		case n == m.Threads || n < m.Threads && i == 0:
			return m.Bytes
		case n < m.Threads:
			a := r[i-1]
			return a.Bytes + (m.Bytes-a.Bytes)*float64(n-a.Threads)/float64(m.Threads-a.Threads)
		}
	}
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].Bytes
}

// thread is the rate of one of the threads of a cache.
func (c Cache) thread(r Rate) float64 { return r.At(max(c.Threads, 1)) / float64(max(c.Threads, 1)) }

// Source is where a read is served from.
type Source int

// The sources: a cache of the reader itself, one of another reader, the file system.
const (
	Local Source = iota
	Remote
	FileSystem
	numSources = iota
)

// String is the name in prints.
func (s Source) String() string { return [...]string{"local", "remote", "file system"}[s] }

// local is the time in which a reader has bytes from its own cache.
func (s *System) local(cache int, bytes int64) float64 {
	c := s.Caches[cache]
	return float64(bytes) / c.thread(c.Read)
}

// remote is the time from the cache of another reader.
func (s *System) remote(cache int, bytes int64) float64 {
	c := s.Caches[cache]
	return float64(bytes) / min(s.Network, c.thread(c.Read))
}

// shared is the time from the file system, if so many readers use it together.
func (s *System) shared(readers int, bytes int64) float64 {
	return float64(bytes) / (s.FileSystem.At(readers) / float64(readers))
}

// stage is the time in which a sample is decoded and written into the staging memory.
func (s *System) stage(bytes int64) float64 {
	return max(float64(bytes)/s.Decode, float64(bytes)/s.Staging.thread(s.Staging.Write))
}
