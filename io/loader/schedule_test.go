package loader

import (
	"math"
	"slices"
	"testing"
)

// The generator's published sequence.
func TestGenerator(t *testing.T) {
	g := generator{42}
	for _, want := range []uint64{0xbdd732262feb6e95, 0x28efe333b266f103, 0x47526757130f9f52} {
		if got := g.next(); got != want {
			t.Errorf("%#x, want %#x", got, want)
		}
	}
}

// small is a schedule whose reads were computed by hand.
var small = Schedule{Seed: 42, Samples: 12, Epochs: 3, Batch: 4, Readers: 2}

func TestOrderByHand(t *testing.T) {
	for epoch, want := range [][]int{{3, 7, 4, 8, 6, 11, 1, 5, 0, 10, 2, 9}, {8, 5, 3, 10, 2, 6, 4, 7, 0, 1, 9, 11}, {5, 4, 0, 9, 11, 8, 10, 1, 2, 7, 6, 3}} {
		if got := Order(42, uint64(epoch), 12); !slices.Equal(got, want) {
			t.Errorf("epoch %d: %v, want %v", epoch, got, want)
		}
	}
}

func TestReadsByHand(t *testing.T) {
	for reader, want := range [][]int{{3, 7, 6, 11, 0, 10, 8, 5, 2, 6, 0, 1, 5, 4, 11, 8, 2, 7}, {4, 8, 1, 5, 2, 9, 3, 10, 4, 7, 9, 11, 0, 9, 10, 1, 6, 3}} {
		if got := small.Reads(reader); !slices.Equal(got, want) {
			t.Errorf("reader %d: %v, want %v", reader, got, want)
		}
	}
}

// The last batch is padded with the first samples of the epoch. Validation follows
// each epoch, the test follows the last one.
func TestReadsOfATrainingByHand(t *testing.T) {
	s := Schedule{Seed: 42, Samples: 12, Epochs: 1, Batch: 5, Readers: 2, PadLastBatch: true, Validation: 2, Test: 1}
	for reader, want := range [][]int{{3, 7, 4, 11, 1, 5, 2, 9, 3, 12, 13, 14}, {8, 6, 0, 10, 7, 4, 12, 13, 14}} {
		if got := s.Reads(reader); !slices.Equal(got, want) {
			t.Errorf("reader %d: %v, want %v", reader, got, want)
		}
	}
}

// A subset is read in the order of that number of samples. Samples after those of
// the training keep their numbers.
func TestReadsOfAPart(t *testing.T) {
	s := Schedule{Seed: 42, Samples: 20, Subset: []int{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}, Epochs: 1, Batch: 4, Readers: 1, Validation: 1}
	var want []int
	for _, k := range Order(42, 0, 12) {
		want = append(want, s.Subset[k])
	}
	if got := s.Reads(0); !slices.Equal(got, append(want, 20)) {
		t.Errorf("%v, want %v and 20", got, want)
	}
}

func TestPlaceByHand(t *testing.T) {
	sizes := UniformSizes(12, 1)
	for reader, want := range []struct{ priority, fetches []int }{
		{[]int{7, 6, 11, 0, 8, 5, 2, 3, 10, 1, 4}, []int{7, 6, 11, 0}},
		{[]int{9, 4, 1, 3, 10, 8, 5, 2, 7, 11, 0, 6}, []int{4, 1, 9, 3}},
	} {
		if got := small.Priority(reader); !slices.Equal(got, want.priority) {
			t.Errorf("reader %d: priority %v, want %v", reader, got, want.priority)
		}
		place := small.Place(reader, sizes, []int64{4, 1})
		if got := FetchOrder(place, 0, small.Reads(reader)); !slices.Equal(got, want.fetches) {
			t.Errorf("reader %d fetches %v, want %v", reader, got, want.fetches)
		}
		for k, cache := range place {
			at := slices.Index(want.priority, k)
			if expected := []int{0, 0, 0, 0, 1}; at >= 0 && at < 5 && cache != expected[at] || (at < 0 || at >= 5) && cache != uncached {
				t.Errorf("reader %d: sample %d is in cache %d", reader, k, cache)
			}
		}
	}
}

// A sample that does not fit closes its cache, also for smaller samples that
// follow.
func TestPlaceClosesCaches(t *testing.T) {
	if got := fillCaches([]int{0, 1, 2, 3}, []int64{4, 9, 1, 1}, []int64{6, 10, 1}); !slices.Equal(got, []int{0, 1, 1, 2}) {
		t.Errorf("%v", got)
	}
	if got := fillCaches([]int{0, 1}, []int64{4, 1}, []int64{3, 3}); !slices.Equal(got, []int{uncached, uncached}) {
		t.Errorf("%v", got)
	}
}

// Every epoch reads every sample once, in the same order for any number of readers.
func TestReadersShareOneOrder(t *testing.T) {
	for _, s := range []Schedule{
		{Seed: 9, Samples: 53, Epochs: 2, Batch: 8, Readers: 1}, {Seed: 9, Samples: 53, Epochs: 2, Batch: 8, Readers: 3}, {Seed: 9, Samples: 53, Epochs: 2, Batch: 8, Readers: 8}} {
		var all []int
		reads := make([][]int, s.Readers)
		for r := range reads {
			reads[r] = s.Reads(r)
		}
		for range s.Epochs {
			for lo := 0; lo < s.Samples; lo += s.Batch {
				n := min(s.Batch, s.Samples-lo)
				for r := range reads {
					from, to := s.Share(r, n)
					all, reads[r] = append(all, reads[r][:to-from]...), reads[r][to-from:]
				}
			}
		}
		want := append(Order(9, 0, 53), Order(9, 1, 53)...)
		if !slices.Equal(all, want) {
			t.Errorf("%d readers: %v, want %v", s.Readers, all, want)
		}
	}
}

// Times computed by hand, in MB and seconds: the file system provides 250 per
// second to a reader, its cache 3000.
func TestTimelineByHand(t *testing.T) {
	const mb = 1e6
	system := &System{FileSystem: ConstantRate(250 * mb), Decode: 2000 * mb, Compute: 500 * mb,
		Staging: Cache{Capacity: 1 << 40, Threads: 2, Write: Rate{{2, 8000 * mb}}}, Caches: []Cache{{Threads: 1, Read: ConstantRate(3000 * mb)}}}
	for _, c := range []struct {
		name  string
		local []int
		first bool // a sample is read from the file system first
		want  float64
	}{
		{"nothing cached", nil, false, 4.25},
		{"most often read", []int{7, 6, 11, 0}, false, 3.825},
		{"the first few", []int{0, 1, 2, 3}, false, 3.716667},
		{"all", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, false, 3.641667},
		{"most often read, first touch", []int{7, 6, 11, 0}, true, 4.025},
		{"the first few, first touch", []int{0, 1, 2, 3}, true, 4.05},
		{"all, first touch", []int{0, 2, 5, 6, 7, 8, 11}, true, 4.025},
	} {
		m := &simulation{system: system, s: small, sizes: UniformSizes(12, 100*mb)}
		l := m.timeline(0)
		touched := map[int]bool{}
		for _, k := range small.Reads(0) {
			read := system.shared(1, m.sizes[k])
			if slices.Contains(c.local, k) && (!c.first || touched[k]) {
				read = system.local(0, m.sizes[k])
			}
			touched[k] = true
			l.read(read, m.sizes[k], true)
		}
		if math.Abs(l.end-c.want) > 1e-6 {
			t.Errorf("%s: %.6f s, want %.6f", c.name, l.end, c.want)
		}
		if math.Abs(l.busy-3.6) > 1e-9 {
			t.Errorf("%s: the training computes for %v s", c.name, l.busy)
		}
	}
}

// A link bounds the total rate of all threads from the file system, but not the
// rate of caches.
func TestLink(t *testing.T) {
	system := &System{FileSystem: ConstantRate(100), Link: 100, Decode: 200, Compute: 1e9, Staging: Cache{Capacity: 1 << 40, Threads: 4, Write: ConstantRate(1e9)}}
	s := Schedule{Samples: 10, Epochs: 1, Batch: 1, Readers: 1}
	if got := Simulate(system, s, UniformSizes(10, 100), Clairvoyant).Total; math.Abs(got-10) > 1e-6 {
		t.Errorf("%v s over the link, want 10", got)
	}
	system.Link = 0
	if got := Simulate(system, s, UniformSizes(10, 100), Clairvoyant).Total; math.Abs(got-3.75) > 1e-6 { // four threads, 1.5 s each
		t.Errorf("%v s without a bound, want 3.75", got)
	}
}

func TestRate(t *testing.T) {
	r := Rate{{1, 100}, {4, 250}, {8, 300}}
	for n, want := range map[int]float64{0: 100, 1: 100, 2: 150, 4: 250, 6: 275, 8: 300, 99: 300} {
		if got := r.At(n); got != want {
			t.Errorf("%d threads: %v, want %v", n, got, want)
		}
	}
}
