package loader

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"
)

// Dataset is the source of the samples of a Loader. Its methods are called by
// several goroutines.
type Dataset[T any] interface {
	// Read reads sample k from the file system. room is a sample whose memory may
	// be reused, or the zero value. copy, if not nil, receives the data that
	// ReadCopy reads.
	Read(ctx context.Context, k int, room T, copy io.WriterAt) (T, error)
	// ReadCopy restores sample k from the data that Read wrote to copy.
	ReadCopy(ctx context.Context, k int, room T, copy io.ReaderAt) (T, error)
	Size() Size // Size returns the size of a sample. All samples have the same size.
}

// Size is the size of a sample in bytes.
type Size struct {
	// Memory is the size of a sample in memory.
	Memory int64
	// Stored is the size as read from the file system, and as a copy.
	Stored int64
	// Span is the distance from the first to the last byte of a copy.
	Span int64
}

// Options bounds the resources of a Loader. The zero value prefetches one sample
// and caches none.
type Options struct {
	// Prefetch is the number of staging buffers of a stream. Each holds one sample;
	// that many samples are read concurrently ahead of use.
	Prefetch int
	Memory   int64 // Memory is the size of the memory cache in bytes.
	// Disk is the size of the disk cache in bytes. It is one file in DiskDir, which
	// disappears with the process.
	Disk    int64
	DiskDir string
	// PeerTimeout bounds the wait for the reply of a peer, and for each chunk of
	// it. 0 means one minute, more than a file system takes to begin reading a
	// sample.
	PeerTimeout time.Duration
}

// Numbers of the caches of a Loader in Schedule.Place.
const (
	inMemory = iota
	onDisk
)

// Loader returns samples in an order that is known in advance, from the fastest
// place that has them: memory cache, disk cache, memory of peers, file system.
// Samples enter the caches of PlanCaches when a stream first reads them.
type Loader[T any] struct {
	o Options
	// dataset is nil for a loader with all samples in memory.
	dataset Dataset[T]
	size    Size

	mu sync.Mutex
	// placement is the cache of each sample, from Schedule.Place; nil before
	// PlanCaches.
	placement []int
	memory    map[int]T
	disk      *disk
	counts    Counts
	// freeBuffers holds staging buffers of closed streams.
	freeBuffers []T

	// inFlight holds the samples that are being read for the memory cache. The
	// channel is closed when the sample has arrived.
	inFlight map[int]chan struct{}
	// peers is nil before Serve.
	peers *peers[T]
	// reader is the number of this reader among all.
	reader int
	// peersFirst gives peers precedence over the file system, whatever their
	// latency.
	peersFirst bool
	// holders lists the readers that cache each sample; nil without peers.
	holders   [][]holder
	latencies latencies
}

// New makes a loader with empty caches.
//
// Errors: 73 if the file of the disk cache cannot be created.
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

// NewInMemory makes a loader of samples that are all in memory and stay there.
// bytes is the size of one sample.
func NewInMemory[T any](samples []T, bytes int64) *Loader[T] {
	l := &Loader[T]{o: Options{Prefetch: 2}, size: Size{Memory: bytes}, memory: map[int]T{}}
	for k, x := range samples {
		l.memory[k] = x
	}
	return l
}

// Close frees the caches. All streams must be closed before.
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

// PlanCaches decides which samples to cache for a schedule: those that the reader
// reads most often, up to the size of each cache. Other cached samples are dropped.
// No stream may be open.
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

// capacities returns the number of samples that fit each cache.
func (l *Loader[T]) capacities() []int64 {
	caches := []int64{l.o.Memory / max(l.size.Memory, 1), 0}
	if l.disk != nil {
		caches[onDisk] = l.o.Disk / max(l.size.Stored, 1)
	}
	return caches
}

// Count is a number of reads and their bytes.
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

// Counts holds the reads from each source and the time spent waiting. Bytes are
// those in memory (Prefetched, Memory, Peers) or as stored (Disk, FileSystem).
type Counts struct {
	// Prefetched counts the samples of any source that were ready when they were
	// needed.
	Prefetched Count
	// Memory, Disk, Peers and FileSystem count reads by source.
	Memory Count
	Disk   Count
	Peers  Count
	// FileSystem includes reads for peers.
	FileSystem Count
	// WaitTime is the total time of waiting for samples that were not ready.
	WaitTime  time.Duration
	DiskError error // DiskError is the first error of the disk cache; nil without one.
	PeerError error // PeerError is the first error of a peer; nil without one.
}

// Since returns the difference from earlier counts.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{c.Prefetched.sub(earlier.Prefetched), c.Memory.sub(earlier.Memory), c.Disk.sub(earlier.Disk), c.Peers.sub(earlier.Peers), c.FileSystem.sub(earlier.FileSystem),
		c.WaitTime - earlier.WaitTime, c.DiskError, c.PeerError}
}

// Counts returns the counts of all streams.
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

// Stream returns the samples of a list in order. It prefetches into its staging
// buffers.
type Stream[T any] struct {
	l     *Loader[T]
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup
	slots []slot[T]
	// at is the number of samples returned.
	at  int
	n   int
	err error
}

// slot is a staging buffer. With n slots, slot i serves the samples i, i+n, i+2n …
// of the list.
type slot[T any] struct {
	// full holds the next sample of the slot.
	full chan fetched[T]
	// free signals that the sample of this slot is no longer in use.
	free chan struct{}
	// buffer is owned by the goroutine that fills the slot.
	buffer T
}

// fetched is a sample or the error of reading it.
type fetched[T any] struct {
	sample T
	err    error
}

// Stream starts reading samples in an order. Close must be called.
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

// Next returns the next sample. It is valid until the next call of Next or Close,
// and must not be changed.
//
// Errors: io.EOF after the last sample; those of the dataset, which end the stream;
// ctx.Err().
func (s *Stream[T]) Next() (x T, err error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return x, s.err
	}
	if s.at > 0 {
		// The previous sample may be overwritten from now on.
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

// Close cancels reads in progress and ends the stream.
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

// servedFrom is the source of a sample in Counts.
type servedFrom int

const (
	fromMemory servedFrom = iota
	fromDisk
	fromPeers
	fromFileSystem
)

// count adds one read.
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

// fetch returns sample k from the fastest source and counts the read. room is
// memory that may be reused. left may be reused when the sample is no longer in
// use.
func (l *Loader[T]) fetch(ctx context.Context, k int, room T) (x, left T, err error) {
	x, left, f, err := l.load(ctx, k, room)
	if err == nil {
		l.count(f)
	}
	return x, left, err
}

// load is fetch without counting; f is the source.
func (l *Loader[T]) load(ctx context.Context, k int, room T) (x, left T, f servedFrom, err error) {
	var none T
	for {
		l.mu.Lock()
		if x, held := l.memory[k]; held {
			l.mu.Unlock()
			return x, room, fromMemory, nil
		}
		// Another stream, or a peer, reads the same sample. Waiting for it is
		// faster than a second read.
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
			l.disk.dropCopy(k, err) // fall back to the file system
		}
	}
	if x, f, err = l.fetchUncached(ctx, k, room, place, source, keeper); err != nil {
		return none, none, f, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A cached sample keeps its memory, so the caller gets no buffer back.
	if l.placement != nil && l.placement[k] == inMemory {
		l.memory[k] = x
		return x, none, f, nil
	}
	return x, x, f, nil
}

// fetchUncached reads a sample from a peer or from the file system. If the peer
// fails, the file system is read.
func (l *Loader[T]) fetchUncached(ctx context.Context, k int, room T, place int, source Source, p holder) (x T, f servedFrom, err error) {
	began := time.Now()
	if source == Remote {
		var fresh bool
		if x, fresh, err = l.peers.request(ctx, p.reader, k, room); err == nil {
			if !fresh { // otherwise the latency is that of the peer's file system
				l.recordLatency(fromPeers, time.Since(began))
			}
			return x, fromPeers, nil
		}
		if ctx.Err() != nil {
			return x, fromPeers, err
		}
		room = x // fall back to the file system
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

// chooseSource returns the source of a sample that is not in memory, and the peer
// if it is one, with the rule of Simulate. l.mu must be held.
func (l *Loader[T]) chooseSource(k, place int) (Source, holder) {
	if l.holders == nil || place == onDisk { // the disk copy is made from data of the file system
		return FileSystem, holder{}
	}
	at, ok := owner(k, l.holders[k])
	if !ok || at.reader == l.reader {
		return FileSystem, holder{}
	}
	remote, shared := l.latencies.expected(l.peersFirst)
	return fastestSource(l.reader, shared, []holder{at}, func(holder) (float64, bool) { return remote, true })
}
