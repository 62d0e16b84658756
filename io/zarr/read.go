package zarr

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/cf"
)

// Bounds of memory. Chunks that are being decoded need up to three times their size: as
// they are read, between two codecs, and decoded.
const (
	cacheBytes  = 256 << 20 // decoded chunks that are kept
	decodeBytes = 1 << 30   // decoded chunks that are under way
	// freeRatio is how much a chunk may grow by decoding, if it becomes larger than
	// freeBytes: fields of one value shrink to almost nothing, and bombs grow from it.
	freeRatio = 1000
	freeBytes = 64 << 20
)

// Request is a part of an array, to be read into Values or Doubles: in C order of its
// dimensions, unpacked, NaN where it is missing.
type Request struct {
	Slab    cf.Slab // of Store.Header
	Values  []float32
	doubles []float64
}

// chunkRead is one chunk with the parts that need it.
type chunkRead struct {
	array *Array
	index []int64 // of the chunk, in chunks
	parts []*Request
}

// Read reads parts into their Values, for which room gives memory once all chunks are
// known to be there. As many chunks as there are processors are read at once, each once,
// whatever number of parts it serves.
//
// Memory: decodeBytes, cacheBytes.
// Errors: *exit.Error naming array and chunk, 65 for a chunk that is absent or damaged, 66
// for one that was written while the store was open, 74 if reading fails; ctx.Err().
func (s *Store) Read(ctx context.Context, parts []*Request, room func(n int) []float32) error {
	jobs, err := s.planReads(parts)
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.Values = room(int(p.Slab.Size()))
	}
	return s.runReads(ctx, jobs, false)
}

// ReadAll reads a whole array as doubles, for coordinates.
func (s *Store) ReadAll(ctx context.Context, k int) ([]float64, error) {
	a := s.Arrays[k]
	p := &Request{Slab: cf.Slab{Var: k, Start: make([]int64, len(a.Shape)), Count: a.Shape}}
	jobs, err := s.planReads([]*Request{p})
	if err != nil {
		return nil, err
	}
	p.doubles = make([]float64, p.Slab.Size())
	return p.doubles, s.runReads(ctx, jobs, true)
}

// planReads finds the chunks of all parts, in the order of the first part that needs them.
//
// Errors: a part that does not fit its array; that of absent, if a chunk or its shard is
// not there.
func (s *Store) planReads(parts []*Request) ([]*chunkRead, error) {
	var out []*chunkRead
	by := map[string]*chunkRead{}
	for _, p := range parts {
		if p.Slab.Var < 0 || p.Slab.Var >= len(s.Arrays) {
			return nil, fmt.Errorf("array %d of %d", p.Slab.Var, len(s.Arrays))
		}
		a := s.Arrays[p.Slab.Var]
		if a.text {
			return nil, fmt.Errorf("%s holds texts", a.Path)
		}
		if err := p.check(a); err != nil {
			return nil, err
		}
		inner := a.innerChunk()
		index := make([]int64, len(a.Shape))
		for i := range index {
			index[i] = p.Slab.Start[i] / inner[i]
		}
		for {
			key := fmt.Sprint(p.Slab.Var, index)
			if by[key] == nil {
				if at := a.chunkKey(index); !s.storage.has(at) {
					if err := s.absentChunk(a.chunkName(at)); err != nil {
						return nil, err
					}
				}
				by[key] = &chunkRead{array: a, index: append([]int64(nil), index...)}
				out = append(out, by[key])
			}
			by[key].parts = append(by[key].parts, p)
			i := len(index) - 1
			for ; i >= 0; i-- {
				if index[i]++; index[i]*inner[i] < p.Slab.Start[i]+p.Slab.Count[i] {
					break
				}
				index[i] = p.Slab.Start[i] / inner[i]
			}
			if i < 0 {
				break
			}
		}
	}
	return out, nil
}

// check checks a part against its array.
func (p *Request) check(a *Array) error {
	if len(p.Slab.Start) != len(a.Shape) || len(p.Slab.Count) != len(a.Shape) {
		return fmt.Errorf("%s: part %v %v does not fit", a.Path, p.Slab.Start, p.Slab.Count)
	}
	for i, n := range a.Shape {
		if p.Slab.Start[i] < 0 || p.Slab.Count[i] < 1 || p.Slab.Start[i]+p.Slab.Count[i] > n {
			return fmt.Errorf("%s: part %v %v is outside of %v", a.Path, p.Slab.Start, p.Slab.Count, a.Shape)
		}
	}
	return nil
}

// runReads does jobs. The error is that of the first job that has one, whichever ends first:
// after an error no more are begun, and those that were are finished.
func (s *Store) runReads(ctx context.Context, jobs []*chunkRead, coordinate bool) error {
	errs := make([]error, len(jobs))
	var failed atomic.Bool
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		if failed.Load() || ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if errs[i] = s.readChunk(ctx, j, coordinate); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	g.Wait() // no job returns an error to it
	if err := ctx.Err(); err != nil {
		return err
	}
	return cmp.Or(errs...)
}

// readChunk reads one chunk into its parts.
func (s *Store) readChunk(ctx context.Context, j *chunkRead, coordinate bool) error {
	raw, err := s.cache.get(ctx, j.array, fmt.Sprint(j.index), func() ([]byte, error) { return s.loadChunk(j.array, j.index) })
	if err != nil {
		return err
	}
	gap := math.NaN()
	if coordinate && j.array.hasFill {
		gap = j.array.fill
	}
	for _, p := range j.parts {
		if err := j.copy(p, raw, gap); err != nil {
			return s.storeError("values cannot be unpacked", "array "+j.array.Path, err)
		}
	}
	return nil
}

// copy takes what a part needs of a chunk, row by row. A chunk of nil is absent: gap
// stands for its values.
func (j *chunkRead) copy(p *Request, raw []byte, gap float64) error {
	a := j.array
	n := len(a.Shape)
	inner := a.innerChunk()
	from, count := make([]int64, n), make([]int64, n) // of the chunk's elements
	first, stride := int64(0), int64(1)               // of the part's values
	into := make([]int64, n)                          // strides of the part's values
	for i := n - 1; i >= 0; i-- {
		low, high := max(j.index[i]*inner[i], p.Slab.Start[i]), min((j.index[i]+1)*inner[i], p.Slab.Start[i]+p.Slab.Count[i])
		from[i], count[i] = low-j.index[i]*inner[i], high-low
		into[i] = stride
		first += (low - p.Slab.Start[i]) * stride
		stride *= p.Slab.Count[i]
	}
	steps := a.strides()
	row, step, last := 1, 1, n-1
	if n > 0 {
		row, step = int(count[last]), int(steps[last])
	}
	values := make([]float64, row)
	place := make([]int64, n)
	for {
		at, to := int64(0), first
		for i := range n {
			at += (from[i] + place[i]) * steps[i]
			to += place[i] * into[i]
		}
		if raw == nil {
			for k := range values {
				values[k] = gap
			}
		} else {
			a.dtype.readFloats(values, raw, int(at), step)
		}
		if err := a.packing.Unpack(values); err != nil {
			return err
		}
		if p.doubles != nil {
			copy(p.doubles[to:], values)
		} else {
			for k, v := range values {
				p.Values[int(to)+k] = float32(v)
			}
		}
		i := last - 1
		for ; i >= 0; i-- {
			if place[i]++; place[i] < count[i] {
				break
			}
			place[i] = 0
		}
		if i < 0 {
			return nil
		}
	}
}

// strides are the elements between neighbours along each dimension of a decoded chunk.
func (a *Array) strides() []int64 {
	out := make([]int64, len(a.order))
	step := int64(1)
	for k := len(a.order) - 1; k >= 0; k-- {
		out[a.order[k]] = step
		step *= a.innerChunk()[a.order[k]]
	}
	return out
}

// chunkKey is the key under which a chunk lies, or its shard.
func (a *Array) chunkKey(index []int64) string {
	if a.sharded == nil {
		return a.keys.key(index)
	}
	outer := make([]int64, len(index))
	for i, k := range index {
		outer[i] = k / a.sharded.chunksPerShard[i]
	}
	return a.keys.key(outer)
}

// chunkName names a key in messages.
func (a *Array) chunkName(key string) string { return fmt.Sprintf("array %s, chunk %s", a.Path, key) }

// loadChunk reads and decodes a chunk; nil if it is absent and may be.
func (s *Store) loadChunk(a *Array, index []int64) ([]byte, error) {
	key := a.chunkKey(index)
	at := a.chunkName(key)
	o, err := s.storage.open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.absentChunk(at)
	}
	if err != nil {
		return nil, s.storeError("a chunk cannot be read", at, err)
	}
	var src []byte
	if a.sharded == nil {
		if o.size > 2*maxChunk {
			o.close()
			return nil, s.storeError("a chunk cannot be read", at, fmt.Errorf("%d bytes, more than %d", o.size, int64(2*maxChunk)))
		}
		src, err = o.bytes()
	} else {
		at += fmt.Sprintf(", inside %v", index)
		src, err = a.sharded.readChunk(o, key, index)
	}
	if err != nil {
		return nil, s.storeError("a chunk cannot be read", at, err)
	}
	if src == nil {
		return nil, s.absentChunk(at)
	}
	size := int(a.chunkSize()) * a.dtype.size
	if size > freeBytes && size/freeRatio > len(src) {
		return nil, s.storeError("a chunk cannot be decoded", at, fmt.Errorf("%d bytes would become %d", len(src), size))
	}
	raw, err := decodeChain(a.decoders, src, size)
	if err != nil {
		return nil, s.storeError("a chunk cannot be decoded", at, err)
	}
	a.dtype.toLittleEndian(raw)
	return raw, nil
}

// readChunk reads one chunk out of a shard; nil if it is absent. The shard is closed.
func (s *sharding) readChunk(o *object, key string, chunk []int64) ([]byte, error) {
	defer o.close()
	index, err := s.loadIndex(o, key)
	if err != nil {
		return nil, err
	}
	inside := int64(0)
	for i, k := range chunk {
		inside = inside*s.chunksPerShard[i] + k%s.chunksPerShard[i]
	}
	offset, length := index[inside][0], index[inside][1]
	if length < 0 {
		return nil, nil
	}
	if length > 2*maxChunk {
		return nil, fmt.Errorf("%d bytes, more than %d", length, int64(2*maxChunk))
	}
	src := make([]byte, length)
	if n, err := o.ReadAt(src, offset); int64(n) < length {
		if err == io.EOF {
			err = errChanged
		}
		return nil, err
	}
	return src, o.check()
}

// FirstAbsentChunk names the first chunk, or shard, that is not there; "" if all are, or may be
// absent. What a shard lacks is found when it is read.
func (s *Store) FirstAbsentChunk() string {
	if s.sparse {
		return ""
	}
	for _, a := range s.Arrays {
		if a.text || slices.Contains(a.Shape, 0) {
			continue
		}
		index := make([]int64, len(a.Shape))
		for i := 0; i >= 0; {
			key := a.keys.key(index)
			if !s.storage.has(key) {
				return a.chunkName(key)
			}
			for i = len(index) - 1; i >= 0; i-- {
				if index[i]++; index[i]*a.chunk[i] < a.Shape[i] {
					break
				}
				index[i] = 0
			}
		}
	}
	return ""
}

// absentChunk is the error of a chunk that is not there, nil if that is allowed.
func (s *Store) absentChunk(at string) error {
	if s.sparse {
		return nil
	}
	return &exit.Error{Code: exit.BadData, What: "a chunk is absent", At: s.path + ", " + at,
		Why: "it was lost, or never written; other readers take it for the fill value",
		Fix: "fetch the store again; if absent chunks are missing values by intent, say so: data.sparse: true, or --sparse"}
}

// cache keeps decoded chunks, the last that were used, and lets only one goroutine decode
// each.
type cache struct {
	mu       sync.Mutex
	entries  map[string]*cacheEntry
	order    *list.List // of keys, the last used in front
	bytes    int
	decoding *semaphore.Weighted
}

type cacheEntry struct {
	done     chan struct{}
	raw      []byte
	err      error
	position *list.Element
}

func newCache() *cache {
	return &cache{entries: map[string]*cacheEntry{}, order: list.New(), decoding: semaphore.NewWeighted(decodeBytes)}
}

// get gives a chunk, which decode makes if it is not there. Nobody writes to the bytes.
func (c *cache) get(ctx context.Context, a *Array, index string, decode func() ([]byte, error)) ([]byte, error) {
	key := a.Path + index
	c.mu.Lock()
	for c.entries[key] != nil {
		e := c.entries[key]
		if e.position != nil {
			c.order.MoveToFront(e.position)
		}
		c.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return e.raw, e.err
		}
		c.mu.Lock() // who decoded it gave up; this one need not
	}
	e := &cacheEntry{done: make(chan struct{})}
	c.entries[key] = e
	c.mu.Unlock()
	size := min(a.chunkSize()*int64(a.dtype.size), decodeBytes)
	if e.err = c.decoding.Acquire(ctx, size); e.err == nil {
		e.raw, e.err = decode()
		c.decoding.Release(size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(e.done)
	if e.err != nil { // it may be better the next time
		delete(c.entries, key)
		return nil, e.err
	}
	e.position = c.order.PushFront(key)
	c.bytes += len(e.raw)
	for c.bytes > cacheBytes {
		oldest := c.order.Back()
		name := oldest.Value.(string)
		c.bytes -= len(c.entries[name].raw)
		delete(c.entries, name)
		c.order.Remove(oldest)
	}
	return e.raw, nil
}
