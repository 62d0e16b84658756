package loader

// System describes the storage and network of readers.
//
// Unit: rates in bytes per second.
type System struct {
	FileSystem Rate // FileSystem is the total rate of the shared file system, by number of readers.
	// Link bounds the rate of all threads of one reader from the file system; 0
	// means no bound.
	Link    float64
	Network float64 // Network is the rate between two readers.
	Staging Cache   // Staging is the memory from which training takes samples.
	Caches  []Cache // Caches holds the caches on a reader's node, fastest first: memory, disks.
	// Decode is the rate of decoding samples, Compute the rate at which training
	// consumes them.
	Decode, Compute float64
}

// Cache is a class of storage of one reader.
type Cache struct {
	// Capacity in bytes.
	Capacity int64
	// Threads prefetch into the cache.
	Threads     int
	Read, Write Rate
}

// Rate is a rate measured for several numbers of threads or readers, ascending. It
// is interpolated linearly between them and constant outside.
type Rate []RatePoint

// RatePoint is the total rate of a number of threads.
type RatePoint struct {
	// Threads that run concurrently.
	Threads int
	// Bytes per second, in total.
	Bytes float64
}

// ConstantRate is a rate that does not depend on the number of threads.
func ConstantRate(bytes float64) Rate { return Rate{{1, bytes}} }

// At returns the total rate of n threads; 0 without measurements.
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

// thread returns the rate of one of the threads of a cache.
func (c Cache) thread(r Rate) float64 { return r.At(max(c.Threads, 1)) / float64(max(c.Threads, 1)) }

// Source is the place from which a read is served.
type Source int

// Sources: a cache of the reader itself, a cache of another reader, the file
// system.
const (
	Local Source = iota
	Remote
	FileSystem
	numSources = iota
)

// String returns the name of the source.
func (s Source) String() string { return [...]string{"local", "remote", "file system"}[s] }

// local returns the seconds to read bytes from the reader's own cache.
func (s *System) local(cache int, bytes int64) float64 {
	c := s.Caches[cache]
	return float64(bytes) / c.thread(c.Read)
}

// remote returns the seconds to read bytes from the cache of another reader.
func (s *System) remote(cache int, bytes int64) float64 {
	c := s.Caches[cache]
	return float64(bytes) / min(s.Network, c.thread(c.Read))
}

// shared returns the seconds to read bytes from the file system while a number of
// readers use it.
func (s *System) shared(readers int, bytes int64) float64 {
	return float64(bytes) / (s.FileSystem.At(readers) / float64(readers))
}

// stage returns the seconds to decode a sample and write it to the staging memory.
// Decoding and writing overlap, so the slower one counts.
func (s *System) stage(bytes int64) float64 {
	return max(float64(bytes)/s.Decode, float64(bytes)/s.Staging.thread(s.Staging.Write))
}
