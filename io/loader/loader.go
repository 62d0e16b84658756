package loader

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
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

// Numbers of the caches of a reader in Schedule.Place.
const (
	inMemory = iota
	onDisk
)

// Loader returns samples in an order that is known in advance, from the first place
// that has them: memory cache, disk cache, memory of peers, file system. PlanCaches
// decides what the caches keep.
type Loader[T any] struct {
	o Options
	// dataset is nil for a loader with all samples in memory.
	dataset Dataset[T]
	size    Size

	mu sync.Mutex
	// plan is nil before PlanCaches.
	plan *plan
	cache[T]
	disk   *disk
	counts Counts

	// inFlight holds the samples that are being read for the memory cache. The
	// channel is closed when the sample has arrived.
	inFlight map[int]chan struct{}
	// peers is nil before Serve.
	peers *peers[T]
	// reader is the number of this reader among all.
	reader int
	// rooms are the caches of all readers; nil before ConnectPeers.
	rooms []room
	// peersFirst gives peers precedence over the file system, whatever their
	// latency.
	peersFirst bool
	latencies  latencies
}

// cache holds samples in memory.
type cache[T any] struct {
	memory map[int]*held[T]
	// spare lists the samples in memory without a planned use, oldest first, and
	// others that were such. They give way to planned ones.
	spare []int
	// freeBuffers holds the memory of samples that are no longer in use.
	freeBuffers []T
}

// held is a sample in memory.
type held[T any] struct {
	x T
	// users counts the streams and replies that use it now.
	users int
	// state defines how long it stays.
	state  retention
	listed bool // in Loader.spare, perhaps from an earlier state
}

// retention is the reason why a sample is in memory.
type retention int

const (
	kept     retention = iota // for its next use
	pending                   // until other readers have read it
	unneeded                  // while there is room
)

// New makes a loader with empty caches.
//
// Errors: 73 if the file of the disk cache cannot be created.
func New[T any](origin Dataset[T], o Options) (*Loader[T], error) {
	o.Prefetch, o.PeerTimeout = max(o.Prefetch, 1), cmp.Or(o.PeerTimeout, time.Minute)
	l := &Loader[T]{o: o, dataset: origin, size: origin.Size(), cache: cache[T]{memory: map[int]*held[T]{}}, inFlight: map[int]chan struct{}{}}
	if o.Disk > 0 {
		var err error
		if l.disk, err = newDisk(o.DiskDir, l.size.Span); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// NewInMemory makes a loader of samples that are all in memory and stay there.
// bytes is the size of one sample, files what was read from the file system for them.
func NewInMemory[T any](samples []T, bytes int64, files Count) *Loader[T] {
	l := &Loader[T]{o: Options{Prefetch: 2}, size: Size{Memory: bytes}, cache: cache[T]{memory: map[int]*held[T]{}}, counts: Counts{FileSystem: files}}
	for k, x := range samples {
		l.memory[k] = &held[T]{x: x}
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

// PlanCaches decides which samples to keep and until when, for the passes that
// follow. Reads that are not planned are correct, but may read a sample again. All
// readers call it with the same passes of samples 0 to before samples. No stream may be
// open.
func (l *Loader[T]) PlanCaches(passes []Pass, samples, reader int) {
	if l.dataset == nil {
		return
	}
	rooms := l.rooms
	if rooms == nil { // this reader alone
		rooms = []room{l.room()}
		alone := make([]Pass, len(passes))
		for i, p := range passes {
			alone[i] = Pass{Common: p.reads(reader)}
		}
		passes, reader = alone, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var home []int
	if l.plan != nil && len(l.plan.home) == samples {
		home = l.plan.home // else samples in memory would be at the wrong reader
	}
	l.plan = newPlan(passes, samples, reader, rooms, home, func(k int) bool { return l.memory[k] != nil })
	for _, k := range slices.Sorted(maps.Keys(l.memory)) {
		state := unneeded
		if l.plan.resident[k] || l.plan.copies[k] {
			state = kept
		}
		l.setState(k, l.memory[k], state)
	}
	if l.disk != nil {
		l.disk.assign(l.plan.disk)
	}
}

// room returns the number of samples that fit each cache.
func (l *Loader[T]) room() room {
	r := room{memory: l.o.Memory / max(l.size.Memory, 1)}
	if l.disk != nil {
		r.disk = l.o.Disk / max(l.size.Stored, 1)
	}
	return r
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
	free  chan struct{}
	inUse loaded[T] // inUse is the sample of the slot; only its goroutine uses the field.
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
	for i := range s.slots {
		c := &s.slots[i]
		c.full, c.free = make(chan fetched[T], 1), make(chan struct{}, 1)
		c.free <- struct{}{}
	}
	for i := range s.slots {
		c := &s.slots[i]
		s.done.Go(func() {
			for at := i; at < len(reads); at += len(s.slots) {
				select {
				case <-c.free:
				case <-s.ctx.Done():
					return
				}
				l.release(&c.inUse)
				x, f, err := l.load(s.ctx, reads[at])
				if err == nil {
					l.count(f)
				}
				c.inUse = x
				c.full <- fetched[T]{x.sample, err}
				if err != nil {
					return
				}
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
	for i := range s.slots {
		s.l.release(&s.slots[i].inUse)
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

// loaded is a sample as load returns it; release ends its use. The zero value is none.
type loaded[T any] struct {
	sample T
	held   *held[T] // held is its entry in memory; nil if sample is in a buffer.
	buffer bool     // buffer says that the memory of sample is to be reused.
}

// release ends the use of a sample.
func (l *Loader[T]) release(x *loaded[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case x.held != nil:
		x.held.users--
		l.trim()
	case x.buffer:
		l.recycle(x.sample)
	}
	*x = loaded[T]{}
}

// recycle keeps the memory of a sample for a later one. l.mu must be held.
func (l *Loader[T]) recycle(x T) {
	if len(l.freeBuffers) < l.o.Prefetch {
		l.freeBuffers = append(l.freeBuffers, x)
	}
}

// trim drops samples without a planned use while there are more than fit. l.mu must
// be held.
func (l *Loader[T]) trim() {
	for l.dataset != nil && int64(len(l.memory)) > l.room().memory {
		x, ok := l.evict()
		if !ok {
			return
		}
		l.recycle(x)
	}
}

// load returns sample k and its source.
func (l *Loader[T]) load(ctx context.Context, k int) (out loaded[T], f servedFrom, err error) {
	for {
		l.mu.Lock()
		if h := l.memory[k]; h != nil {
			h.users++
			l.use(k, h)
			l.mu.Unlock()
			return loaded[T]{sample: h.x, held: h}, fromMemory, nil
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
			return out, f, ctx.Err()
		}
	}
	if l.plan != nil && (l.isHome(k) || l.plan.copies[k]) {
		coming := make(chan struct{})
		l.inFlight[k] = coming
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.inFlight, k)
			close(coming)
		}()
	}
	remote := l.fromPeer(k)
	copied := l.plan != nil && l.plan.onDisk[k]
	var room T
	if n := len(l.freeBuffers) - 1; n >= 0 {
		room, l.freeBuffers = l.freeBuffers[n], l.freeBuffers[:n]
	}
	l.mu.Unlock()
	x, f, err := l.fetch(ctx, k, room, copied, remote)
	if err != nil {
		return out, f, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retain(k, x), f, nil
}

// isHome reports whether this reader reads a sample from the file system for all.
// l.mu must be held.
func (l *Loader[T]) isHome(k int) bool {
	return l.rooms == nil || l.plan.home[k] == l.reader
}

// fromPeer reports whether a sample that is not in memory is to be requested from its
// home, with the rule of Simulate. l.mu must be held.
func (l *Loader[T]) fromPeer(k int) bool {
	if l.plan == nil || l.isHome(k) {
		return false
	}
	remote, shared := l.latencies.expected(l.peersFirst)
	source, _ := fastestSource(l.reader, shared, []holder{{l.plan.home[k], inMemory}}, func(holder) (float64, bool) { return remote, true })
	return source == Remote
}

// use counts an access to a sample of this reader and sets how long it stays. l.mu must
// be held.
func (l *Loader[T]) use(k int, h *held[T]) {
	if l.plan == nil || !l.isHome(k) {
		return
	}
	state := unneeded
	switch more, keep := l.plan.uses[k].begin(l.plan.readers); {
	case more:
		state = pending
	case keep:
		state = kept
	}
	l.setState(k, h, state)
}

// setState sets how long a sample stays. l.mu must be held.
func (l *Loader[T]) setState(k int, h *held[T], state retention) {
	if h.state = state; state == unneeded && !h.listed {
		h.listed, l.spare = true, append(l.spare, k)
	}
}

// retain puts a sample that was read into memory if it is planned or there is room.
// l.mu must be held.
func (l *Loader[T]) retain(k int, x T) loaded[T] {
	own := loaded[T]{sample: x, buffer: true}
	if l.plan == nil || !l.isHome(k) && !l.plan.copies[k] || l.memory[k] != nil {
		return own
	}
	h := &held[T]{x: x, users: 1, listed: true} // listed when it is in memory
	l.use(k, h)
	out := loaded[T]{sample: x, held: h}
	if room := l.room().memory; int64(len(l.memory)) >= room {
		if h.state == unneeded {
			return own
		}
		// Samples that are in use, or that other readers are about to read, may
		// exceed the room. If these do not come, because they failed or read the file
		// system, the sample is read again.
		if l.trim(); int64(len(l.memory)) >= room+int64(l.o.Prefetch) {
			return own
		}
	}
	l.memory[k], h.listed = h, false
	defer l.trim()
	l.setState(k, h, h.state)
	return out
}

// evict drops the oldest sample without a planned use that is not in use now, and
// returns its memory. l.mu must be held.
func (l *Loader[T]) evict() (left T, ok bool) {
	var later []int
	defer func() { l.spare = append(later, l.spare...) }()
	for len(l.spare) > 0 {
		k := l.spare[0]
		l.spare = l.spare[1:]
		switch h := l.memory[k]; {
		case h.state != unneeded:
			h.listed = false
		case h.users > 0:
			later = append(later, k)
		default:
			delete(l.memory, k)
			return h.x, true
		}
	}
	return left, false
}

// fetch reads a sample from its copy on disk, from its home, or from the file system. A source
// that fails is replaced by the file system.
func (l *Loader[T]) fetch(ctx context.Context, k int, room T, copied, remote bool) (x T, f servedFrom, err error) {
	if copied {
		if at := l.disk.open(k); at != nil {
			if x, err = l.dataset.ReadCopy(ctx, k, room, at); err == nil {
				return x, fromDisk, nil
			}
			if ctx.Err() != nil {
				return x, fromDisk, err
			}
			l.disk.dropCopy(k, err)
		}
	}
	began := time.Now()
	if remote {
		var fresh bool
		if x, fresh, err = l.peers.request(ctx, l.plan.home[k], k, room); err == nil {
			if !fresh { // otherwise the latency is that of the peer's file system
				l.recordLatency(fromPeers, time.Since(began))
			}
			return x, fromPeers, nil
		}
		if ctx.Err() != nil {
			return x, fromPeers, err
		}
		room = x
		began = time.Now()
	}
	var copy io.WriterAt
	var made *copyWriter
	if copied {
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
