package loader

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"
)

// Dataset is where a Loader has its samples from. Its methods are called by several
// goroutines at once.
type Dataset[T any] interface {
	// Read reads sample k from the file system. room is a sample whose memory may be used
	// again, or the zero value. If copy is not nil it is given what ReadCopy reads.
	Read(ctx context.Context, k int, room T, copy io.WriterAt) (T, error)
	// ReadCopy makes sample k of what Read gave to copy.
	ReadCopy(ctx context.Context, k int, room T, copy io.ReaderAt) (T, error)
	// Size is that of any sample.
	Size() Size
}

// Size is what a sample takes, in bytes.
type Size struct {
	Memory int64 // once it is read
	Stored int64 // as it is read, and as a copy
	Span   int64 // from the first to the last byte of a copy
}

// Options bound what a Loader uses. The zero value reads one sample ahead and keeps none.
type Options struct {
	// Prefetch is the number of staging buffers of a stream, each of which takes a sample: as
	// many are read at once, before they are needed.
	Prefetch int
	// Memory is how many bytes of samples are kept in memory.
	Memory int64
	// Disk is how many bytes are kept in a file in the folder DiskDir, which disappears with
	// the process.
	Disk    int64
	DiskDir string
	// PeerTimeout is how long an answer of a peer is waited for, and each piece of it; 0 is a
	// minute, longer than a file system takes to begin with a sample.
	PeerTimeout time.Duration
}

// The caches of a Loader, by their numbers in Schedule.Place.
const (
	inMemory = iota
	onDisk
)

// Loader gives samples in orders that are known before, from the fastest place that has
// them: its memory, its disk, the memory of other readers, the file system. It keeps what Keep says, from when a stream
// first reads it.
type Loader[T any] struct {
	o       Options
	dataset Dataset[T] // nil for one that holds all samples
	size    Size

	mu          sync.Mutex
	placement   []int // by sample, that of Schedule.Place
	memory      map[int]T
	disk        *disk
	counts      Counts
	freeBuffers []T // staging buffers of streams that have ended

	inFlight   map[int]chan struct{} // samples for the memory that are on their way, closed when they are there
	peers      *peers[T]             // nil for none
	reader     int                   // which one this is of all
	peersFirst bool                  // peers come before the file system
	holders    [][]holder            // by sample; nil if there is nobody to ask
	latencies  latencies
}

// New makes a loader that keeps nothing yet.
//
// Errors: 73 if the disk has no room for the file of its cache.
func New[T any](origin Dataset[T], o Options) (*Loader[T], error) {
	o.Prefetch, o.PeerTimeout = max(o.Prefetch, 1), cmp.Or(o.PeerTimeout, time.Minute)
	l := &Loader[T]{o: o, dataset: origin, size: origin.Size(), memory: map[int]T{}, inFlight: map[int]chan struct{}{}}
	if o.Disk > 0 {
		var err error
		if l.disk, err = newDisk(o.DiskDir, l.size.Span); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// NewInMemory is a loader of samples of so many bytes that all are in memory, and stay there.
func NewInMemory[T any](samples []T, bytes int64) *Loader[T] {
	l := &Loader[T]{o: Options{Prefetch: 2}, size: Size{Memory: bytes}, memory: map[int]T{}}
	for k, x := range samples {
		l.memory[k] = x
	}
	return l
}

// Close frees what the loader keeps. Its streams must be closed.
func (l *Loader[T]) Close() error {
	if l.peers != nil {
		l.peers.shutdown()
	}
	l.memory, l.freeBuffers = nil, nil
	if l.disk == nil {
		return nil
	}
	return l.disk.close()
}

// PlanCaches says which samples to keep, by a schedule that a reader goes through: what it needs
// most often, and in no cache more than its bytes. What else was kept is dropped. No
// stream may be open.
func (l *Loader[T]) PlanCaches(s Schedule, reader int) {
	if l.dataset == nil {
		return
	}
	reads := s.Reads(reader)
	place := s.place(reads, UniformSizes(s.numSamples(), 1), l.capacities())
	var of [][]holder
	if l.peers != nil && l.peers.others != nil {
		places := make([][]int, s.Readers)
		places[reader] = place
		for r, p := range l.peers.others {
			if p != nil {
				places[r] = s.place(s.Reads(r), UniformSizes(s.numSamples(), 1), []int64{p.Memory, p.Disk})
			}
		}
		of = findHolders(places, s.numSamples())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placement, l.holders = place, of
	for k := range l.memory {
		if place[k] != inMemory {
			delete(l.memory, k)
		}
	}
	if l.disk != nil {
		l.disk.assign(FetchOrder(place, onDisk, reads))
	}
}

// capacities is how many samples the caches have room for: samples are alike.
func (l *Loader[T]) capacities() []int64 {
	caches := []int64{l.o.Memory / max(l.size.Memory, 1), 0}
	if l.disk != nil {
		caches[onDisk] = l.o.Disk / max(l.size.Stored, 1)
	}
	return caches
}

// Count is a number of reads, and their bytes.
type Count struct {
	Reads int64 `json:"reads"`
	Bytes int64 `json:"bytes"`
}

func (c *Count) add(bytes int64) {
	c.Reads++
	c.Bytes += bytes
}

func (c Count) sub(earlier Count) Count {
	return Count{c.Reads - earlier.Reads, c.Bytes - earlier.Bytes}
}

// Counts says where samples came from, and how long one waited for them. Bytes are those
// of memory, or as they are stored.
type Counts struct {
	Prefetched Count // of all samples, those that were there before they were asked for
	Memory     Count
	Disk       Count
	Peers      Count
	FileSystem Count         // with what was read for peers
	WaitTime   time.Duration // for those that were not
	// DiskError is why the disk keeps less than it should, if it does.
	DiskError error
	// PeerError is why a peer was not asked, or not believed, if one was not.
	PeerError error
}

// Since is what was added to earlier counts.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{c.Prefetched.sub(earlier.Prefetched), c.Memory.sub(earlier.Memory), c.Disk.sub(earlier.Disk), c.Peers.sub(earlier.Peers), c.FileSystem.sub(earlier.FileSystem),
		c.WaitTime - earlier.WaitTime, c.DiskError, c.PeerError}
}

// Counts are those of all streams so far.
func (l *Loader[T]) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	if l.disk != nil {
		l.disk.mu.Lock()
		defer l.disk.mu.Unlock()
		c.DiskError = l.disk.err
	}
	if l.peers != nil {
		c.PeerError = l.peers.firstError()
	}
	return c
}

// Stream gives the samples of a list, one after the other. They are read ahead in that
// order, as far as staging buffers are free.
type Stream[T any] struct {
	l     *Loader[T]
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup
	slots []slot[T]
	at    int // of the sample to be given next
	n     int
	err   error
}

// slot is a staging buffer. It gets every so-manieth sample of the list.
type slot[T any] struct {
	full   chan fetched[T]
	free   chan struct{} // the sample given from it is no more in use
	buffer T             // of the goroutine that fills it
}

type fetched[T any] struct {
	sample T
	err    error
}

// Stream starts to read samples in an order. Close must be called.
func (l *Loader[T]) Stream(ctx context.Context, reads []int) *Stream[T] {
	s := &Stream[T]{l: l, n: len(reads), slots: make([]slot[T], min(l.o.Prefetch, len(reads)))}
	s.ctx, s.stop = context.WithCancel(ctx)
	l.mu.Lock()
	for i := range s.slots {
		c := &s.slots[i]
		c.full, c.free = make(chan fetched[T], 1), make(chan struct{}, 1)
		c.free <- struct{}{}
		if n := len(l.freeBuffers) - 1; n >= 0 {
			c.buffer, l.freeBuffers = l.freeBuffers[n], l.freeBuffers[:n]
		}
	}
	l.mu.Unlock()
	for i := range s.slots {
		c := &s.slots[i]
		s.done.Go(func() {
			for at := i; at < len(reads); at += len(s.slots) {
				select {
				case <-c.free:
				case <-s.ctx.Done():
					return
				}
				var f fetched[T]
				if f.sample, c.buffer, f.err = l.fetch(s.ctx, reads[at], c.buffer); f.err != nil {
					c.full <- f
					return
				}
				c.full <- f
			}
		})
	}
	return s
}

// Next gives the next sample, which may be used until the next call or Close, and must not
// be changed.
//
// Errors: io.EOF behind the last; those of the origin, which end the stream; ctx.Err().
func (s *Stream[T]) Next() (x T, err error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return x, s.err
	}
	if s.at > 0 {
		s.slots[(s.at-1)%len(s.slots)].free <- struct{}{}
	}
	if s.at == s.n {
		s.err = io.EOF
		return x, s.err
	}
	c := &s.slots[s.at%len(s.slots)]
	s.at++
	var f fetched[T]
	staged, waited := true, time.Duration(0)
	select {
	case f = <-c.full:
	default:
		staged = false
		began := time.Now()
		select {
		case f = <-c.full:
		case <-s.ctx.Done():
			f.err = s.ctx.Err()
		}
		waited = time.Since(began)
	}
	if s.err = f.err; f.err != nil {
		return x, s.err
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.counts.WaitTime += waited
	if staged {
		s.l.counts.Prefetched.add(s.l.size.Memory)
	}
	return f.sample, nil
}

// Close ends the stream. What is being read is given up.
func (s *Stream[T]) Close() {
	s.stop()
	s.done.Wait()
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for i := range s.slots {
		if len(s.l.freeBuffers) < s.l.o.Prefetch {
			s.l.freeBuffers = append(s.l.freeBuffers, s.slots[i].buffer)
		}
	}
	s.slots = nil
}

// origins of samples, as they are counted.
type servedFrom int

const (
	fromMemory servedFrom = iota
	fromDisk
	fromPeers
	fromFileSystem
)

func (l *Loader[T]) count(f servedFrom) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f {
	case fromMemory:
		l.counts.Memory.add(l.size.Memory)
	case fromDisk:
		l.counts.Disk.add(l.size.Stored)
	case fromPeers:
		l.counts.Peers.add(l.size.Memory)
	default:
		l.counts.FileSystem.add(l.size.Stored)
	}
}

// fetch has a sample from the fastest place, and keeps it if that is due. room is memory
// that may be used; the room that it gives may be used when the sample is no more in use.
func (l *Loader[T]) fetch(ctx context.Context, k int, room T) (x, left T, err error) {
	x, left, f, err := l.load(ctx, k, room)
	if err == nil {
		l.count(f)
	}
	return x, left, err
}

// load is fetch for whoever needs the sample, and says where it was.
func (l *Loader[T]) load(ctx context.Context, k int, room T) (x, left T, f servedFrom, err error) {
	var none T
	for {
		l.mu.Lock()
		if x, held := l.memory[k]; held {
			l.mu.Unlock()
			return x, room, fromMemory, nil
		}
		coming := l.inFlight[k]
		if coming == nil {
			break
		}
		l.mu.Unlock()
		select {
		case <-coming:
		case <-ctx.Done():
			return none, none, f, ctx.Err()
		}
	}
	place := uncached
	if l.placement != nil {
		place = l.placement[k]
	}
	if place == inMemory {
		coming := make(chan struct{})
		l.inFlight[k] = coming
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.inFlight, k)
			close(coming)
		}()
	}
	source, keeper := l.chooseSource(k, place)
	l.mu.Unlock()
	if place == onDisk {
		if at := l.disk.open(k); at != nil {
			if x, err = l.dataset.ReadCopy(ctx, k, room, at); err == nil {
				return x, x, fromDisk, nil
			}
			if ctx.Err() != nil {
				return none, none, f, err
			}
			l.disk.dropCopy(k, err) // the file system has it still
		}
	}
	if x, f, err = l.fetchUncached(ctx, k, room, place, source, keeper); err != nil {
		return none, none, f, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.placement != nil && l.placement[k] == inMemory {
		l.memory[k] = x
		return x, none, f, nil
	}
	return x, x, f, nil
}

// fetchUncached has a sample from a peer or from the file system.
func (l *Loader[T]) fetchUncached(ctx context.Context, k int, room T, place int, source Source, p holder) (x T, f servedFrom, err error) {
	began := time.Now()
	if source == Remote {
		var fresh bool
		if x, fresh, err = l.peers.request(ctx, p.reader, k, room); err == nil {
			if !fresh { // else the file system took its time
				l.recordLatency(fromPeers, time.Since(began))
			}
			return x, fromPeers, nil
		}
		if ctx.Err() != nil {
			return x, fromPeers, err
		}
		room = x // the file system has it still
		began = time.Now()
	}
	var copy io.WriterAt
	var made *copyWriter
	if place == onDisk {
		if made = l.disk.beginCopy(k); made != nil {
			copy = made
		}
	}
	x, err = l.dataset.Read(ctx, k, room, copy)
	if made != nil {
		l.disk.endCopy(made, err == nil)
	}
	if err == nil {
		l.recordLatency(fromFileSystem, time.Since(began))
	}
	return x, fromFileSystem, err
}

// chooseSource is where a sample is to be had that is not in memory here, and the keeper there, by
// the rule of Simulate. l.mu is held.
func (l *Loader[T]) chooseSource(k, place int) (Source, holder) {
	if l.holders == nil || place == onDisk { // the copy on the disk is made of what the file system gives
		return FileSystem, holder{}
	}
	at, ok := owner(k, l.holders[k])
	if !ok || at.reader == l.reader {
		return FileSystem, holder{}
	}
	remote, shared := l.latencies.expected(l.peersFirst)
	return fastestSource(l.reader, shared, []holder{at}, func(holder) (float64, bool) { return remote, true })
}
