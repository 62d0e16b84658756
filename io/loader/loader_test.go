package loader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// numbers is a dataset of samples of eight bytes that contain their number. A copy
// is longer than a sample and has a hole.
type numbers struct {
	mu       sync.Mutex
	reads    []int
	made     int // rooms
	now, top int // reads in progress, and their maximum
	fail     int // sample that cannot be read; 0 for none
	slow     bool
	refused  bool // copies cannot be read
}

var errFail = errors.New("cannot be read")

func (n *numbers) Read(ctx context.Context, k int, room *[]byte, copy io.WriterAt) (*[]byte, error) {
	n.mu.Lock()
	n.reads = append(n.reads, k)
	n.now++
	n.top = max(n.top, n.now)
	if room == nil {
		n.made++
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.now--
		n.mu.Unlock()
	}()
	if n.slow {
		time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
	}
	if n.fail > 0 && k == n.fail {
		return nil, errFail
	}
	text := binary.LittleEndian.AppendUint64(nil, uint64(k))
	if copy != nil {
		for i, half := range [][]byte{text[:4], text[4:]} {
			if _, err := copy.WriteAt(half, int64(16*i)); err != nil {
				return nil, err
			}
		}
	}
	return n.into(room, text), ctx.Err()
}

func (n *numbers) into(room *[]byte, text []byte) *[]byte {
	if room == nil {
		room = new([]byte)
	}
	*room = append((*room)[:0], text...)
	return room
}

func (n *numbers) ReadCopy(_ context.Context, k int, room *[]byte, copy io.ReaderAt) (*[]byte, error) {
	if n.refused {
		return nil, errFail
	}
	text := make([]byte, 20)
	if _, err := copy.ReadAt(text, 0); err != nil {
		return nil, err
	}
	return n.into(room, append(text[:4], text[16:]...)), nil
}

func (n *numbers) Size() Size { return Size{Memory: 8, Stored: 8, Span: 20} }

func newLoader(t *testing.T, n *numbers, o Options) *Loader[*[]byte] {
	t.Helper()
	o.DiskDir = t.TempDir()
	l, err := New(n, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// drain reads a stream to its end and checks the samples.
func drain(l *Loader[*[]byte], reads []int) error {
	s := l.Stream(context.Background(), reads)
	defer s.Close()
	for i, want := range reads {
		x, err := s.Next()
		if err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if got := binary.LittleEndian.Uint64(*x); got != uint64(want) {
			return fmt.Errorf("sample %d is %d, want %d", i, got, want)
		}
	}
	if _, err := s.Next(); err != io.EOF {
		return fmt.Errorf("behind the last sample: %v", err)
	}
	return nil
}

// Samples are correct and in order for any number of buffers and any caches. The
// number of concurrent reads and of samples in memory stays within the limits.
func TestStream(t *testing.T) {
	s := Schedule{Seed: 11, Samples: 37, Epochs: 3, Batch: 5, Readers: 2, PadLastBatch: true, Validation: 4, Test: 3}
	for _, o := range []Options{{}, {Prefetch: 3}, {Prefetch: 100}, {Prefetch: 4, Memory: 10 * 8}, {Prefetch: 4, Disk: 10 * 8}, {Prefetch: 5, Memory: 7 * 8, Disk: 9 * 8}} {
		n := &numbers{slow: true}
		l := newLoader(t, n, o)
		l.PlanCaches(s.Passes(0), s.numSamples(), 1)
		if err := drain(l, s.Reads(1)); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		ahead := max(o.Prefetch, 1)
		if n.top > ahead || n.made > ahead+int(o.Memory/8) {
			t.Errorf("%+v: %d reads at once into %d samples", o, n.top, n.made)
		}
		c := l.Counts()
		if got, want := int(c.Memory.Reads+c.Disk.Reads+c.FileSystem.Reads), len(s.Reads(1)); got != want || int(c.FileSystem.Reads) != len(n.reads) || c.DiskError != nil {
			t.Errorf("%+v: %+v of %d reads, %d of them from the origin", o, c, want, len(n.reads))
		}
	}
}

// If caches hold all samples, each is read from the file system once, also with
// another order and after samples were placed anew.
func TestNothingIsReadTwice(t *testing.T) {
	s := Schedule{Seed: 1, Samples: 23, Epochs: 2, Batch: 4, Readers: 1, PadLastBatch: true, Validation: 2, Test: 1}
	for _, o := range []Options{{Prefetch: 4, Memory: 26 * 8}, {Prefetch: 2, Memory: 13 * 8, Disk: 13 * 8}} {
		n := &numbers{}
		l := newLoader(t, n, o)
		all := make([]int, s.numSamples())
		for k := range all {
			all[k] = k
		}
		l.PlanCaches(s.Passes(0), s.numSamples(), 0)
		if err := drain(l, all); err != nil {
			t.Fatal(err)
		}
		before := l.Counts()
		if err := drain(l, s.Reads(0)); err != nil {
			t.Fatal(err)
		}
		if c := l.Counts().Since(before); c.FileSystem.Reads > 0 || c.Memory.Reads+c.Disk.Reads != int64(len(s.Reads(0))) {
			t.Errorf("%+v: %+v", o, c)
		}
		if o.Disk > 0 {
			continue // samples that move between memory and disk are read once more
		}
		s.Seed++
		l.PlanCaches(s.Passes(0), s.numSamples(), 0)
		if err := drain(l, s.Reads(0)); err != nil || len(n.reads) != s.numSamples() {
			t.Errorf("%+v: %v, %d reads", o, err, len(n.reads))
		}
	}
}

// An error ends the stream at the sample that has it, not before. A closed stream
// reads no more.
func TestStreamErrors(t *testing.T) {
	n := &numbers{fail: 5, slow: true}
	l := newLoader(t, n, Options{Prefetch: 4})
	s := l.Stream(context.Background(), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	for i := range 4 {
		if _, err := s.Next(); err != nil {
			t.Fatalf("sample %d: %v", i, err)
		}
	}
	for range 2 {
		if _, err := s.Next(); !errors.Is(err, errFail) {
			t.Errorf("the sample that cannot be read: %v", err)
		}
	}
	s.Close()
	if slices.Max(n.reads) > 8 {
		t.Errorf("read %v, with four buffers", n.reads)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s = l.Stream(ctx, []int{1, 2, 3})
	cancel()
	if _, err := s.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Close()
}

// A failing disk costs reads, but no sample.
func TestDiskFails(t *testing.T) {
	s := Schedule{Seed: 1, Samples: 20, Epochs: 3, Batch: 4, Readers: 1}
	for name, spoil := range map[string]func(l *Loader[*[]byte], n *numbers){
		"writing": func(l *Loader[*[]byte], _ *numbers) { l.disk.close() },
		"reading": func(_ *Loader[*[]byte], n *numbers) { n.refused = true },
	} {
		n := &numbers{}
		l := newLoader(t, n, Options{Prefetch: 2, Disk: 1000})
		l.PlanCaches(s.Passes(0), s.numSamples(), 0)
		spoil(l, n)
		if err := drain(l, s.Reads(0)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c := l.Counts(); c.DiskError == nil || c.Disk.Reads > 0 || len(n.reads) != 60 {
			t.Errorf("%s: %+v, %d reads", name, c, len(n.reads))
		}
	}
}

func TestNewInMemory(t *testing.T) {
	l := NewInMemory([]int{10, 11, 12}, 8, Count{})
	l.PlanCaches(Schedule{Samples: 1, Epochs: 1, Batch: 1, Readers: 1}.Passes(0), 1, 0)
	s := l.Stream(context.Background(), []int{2, 0, 2})
	defer s.Close()
	for _, want := range []int{12, 10, 12} {
		if got, err := s.Next(); got != want || err != nil {
			t.Errorf("%d %v, want %d", got, err, want)
		}
	}
	if c := l.Counts(); c.Memory.Reads != 3 || c.FileSystem.Reads > 0 {
		t.Errorf("%+v", c)
	}
}
