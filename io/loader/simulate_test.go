package loader

import (
	"slices"
	"testing"
)

// cluster is a system of nodes with memory for a fifth of 400 samples of 10 MB, a
// disk of the same size, and a file system whose rate per reader decreases with the
// number of readers.
func cluster() *System {
	const mb = 1e6
	return &System{FileSystem: Rate{{1, 400 * mb}, {4, 900 * mb}, {8, 1000 * mb}}, Network: 1500 * mb,
		Staging: Cache{Capacity: 200 * mb, Threads: 2, Read: ConstantRate(20000 * mb), Write: ConstantRate(10000 * mb)},
		Caches:  []Cache{{800 * mb, 2, ConstantRate(8000 * mb), ConstantRate(8000 * mb)}, {800 * mb, 2, ConstantRate(1200 * mb), ConstantRate(800 * mb)}},
		Decode:  3000 * mb, Compute: 600 * mb}
}

func TestSimulatedPolicies(t *testing.T) {
	s, sizes := Schedule{Seed: 3, Samples: 400, Epochs: 6, Batch: 16, Readers: 4}, UniformSizes(400, 10_000_000)
	total := map[Policy]Result{}
	for _, p := range Policies {
		r := Simulate(cluster(), s, sizes, p)
		total[p] = r
		var bytes, want int64
		for _, n := range r.Bytes {
			bytes += n
		}
		if want = int64(s.Epochs) * 400 * 10_000_000; p == Staged {
			want += min(400*10_000_000, 4*1600_000_000)
		}
		if bytes != want {
			t.Errorf("%v: %d bytes are read, want %d", p, bytes, want)
		}
		if len(r.Epochs) != s.Epochs || r.Stall < 0 || r.Total < r.Staging+r.Stall {
			t.Errorf("%v: %+v", p, r)
		}
		t.Logf("%-13v total %.2f s, stall %.2f s, epochs %.2f, GB local %.1f remote %.1f file system %.1f", p, r.Total, r.Stall, r.Epochs,
			float64(r.Bytes[Local])/1e9, float64(r.Bytes[Remote])/1e9, float64(r.Bytes[FileSystem])/1e9)
	}
	// InMemory is the lower bound; readers without caches are the upper bound.
	for _, p := range []Policy{LRU, Sharded, Staged, DoubleBuffer, Plain} {
		if total[Clairvoyant].Total > total[p].Total*1.0001 {
			t.Errorf("clairvoyant takes %.3f s, %v %.3f s", total[Clairvoyant].Total, p, total[p].Total)
		}
	}
	if total[InMemory].Total > total[Clairvoyant].Total || total[Plain].Total < total[DoubleBuffer].Total {
		t.Errorf("%+v", total)
	}
}

// If all caches together hold all samples, only the first epoch reads the file
// system.
func TestNoFileSystemAfterTheFirstEpoch(t *testing.T) {
	s, sizes := Schedule{Seed: 5, Samples: 300, Epochs: 8, Batch: 12, Readers: 4}, UniformSizes(300, 10_000_000)
	r := Simulate(cluster(), s, sizes, Clairvoyant)
	if want := int64(300 * 10_000_000); r.Bytes[FileSystem] != want {
		t.Errorf("%d bytes from the file system, want those of the first epoch, %d", r.Bytes[FileSystem], want)
	}
}

// The most recently used samples are cached, the latest in the fastest cache.
func TestRecent(t *testing.T) {
	r := &lruCache{sizes: []int64{2, 2, 2, 2, 5}, caches: []int64{4, 2}}
	for _, k := range []int{0, 1, 2, 0, 3} {
		r.read(k)
	}
	var at []int
	for k := range 5 {
		at = append(at, r.cache(k))
	}
	if !slices.Equal(at, []int{0, uncached, 1, 0, uncached}) {
		t.Errorf("%v", at)
	}
}
