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

// Bounds of memory. A chunk that is being decoded needs up to three times its size:
// as read, between two codecs, and decoded.
const (
	cacheBytes  = 256 << 20 // decoded chunks in the cache
	decodeBytes = 1 << 30   // chunks that are being decoded
	// freeRatio bounds the compression ratio of chunks above freeBytes. Constant
	// fields compress to almost nothing, and so do decompression bombs.
	freeRatio = 1000
	freeBytes = 64 << 20
)

// Request is a request for a slab of an array. The result is written to Values or
// doubles.
//
// Shape: C order of the dimensions.
// Missing: NaN, after unpacking.
type Request struct {
	// Slab selects the elements. Slab.Var is a position in Store.Arrays.
	Slab cf.Slab
	// Values is the result, in C order of the dimensions.
	Values []float32
	// doubles is the result of ReadCoordinate, instead of Values.
	doubles []float64
}

// chunkRead is one chunk with the requests that need it.
type chunkRead struct {
	array *Array
	// index is the position of the chunk, in chunks along each dimension.
	index []int64
	parts []*Request
}

// Read reads slabs into their Values. room allocates memory for n values; it is
// called when all chunks are known to exist. One goroutine per processor reads
// chunks, each of them once.
//
// Memory: decodeBytes and cacheBytes.
// Errors: *exit.Error with array and chunk: 65 for an absent or damaged chunk, 66
// for one that was written while the store was open, 74 if reading fails;
// ctx.Err().
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

// ReadCoordinate reads a slab as float64. Absent chunks are the fill value, and an
// error unless the store is sparse or the array has one element: zarr-python does not
// write chunks that equal the fill value, so the time of a single initialisation,
// which counts from itself, has none. A warning names it.
func (s *Store) ReadCoordinate(ctx context.Context, slab cf.Slab) ([]float64, error) {
	a := s.Arrays[slab.Var]
	if key := a.keys.key(make([]int64, len(a.Shape))); a.elements() == 1 && !s.storage.has(key) && !a.text {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s, array %s: its only chunk is absent, and its fill value %v is used", s.path, a.Path, a.fill))
		v := []float64{a.fill}
		return v, a.packing.Unpack(v)
	}
	p := &Request{Slab: slab}
	jobs, err := s.planReads([]*Request{p})
	if err != nil {
		return nil, err
	}
	p.doubles = make([]float64, p.Slab.Size())
	return p.doubles, s.runReads(ctx, jobs, true)
}

// elements returns the number of elements.
func (a *Array) elements() int64 {
	n := int64(1)
	for _, l := range a.Shape {
		n *= l
	}
	return n
}

// planReads returns the chunks of all requests, in the order of the first request
// that needs each.
//
// Errors: a slab outside of its array; that of absentChunk.
func (s *Store) planReads(parts []*Request) ([]*chunkRead, error) {
	var out []*chunkRead
	by := map[string]*chunkRead{}
	for _, p := range parts {
		if p.Slab.Var < 0 || p.Slab.Var >= len(s.Arrays) {
			return nil, fmt.Errorf("array %d of %d does not exist", p.Slab.Var, len(s.Arrays))
		}
		a := s.Arrays[p.Slab.Var]
		if a.text {
			return nil, fmt.Errorf("%s is an array of strings", a.Path)
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
			// Requests that need the same chunk share one read.
			key := fmt.Sprint(p.Slab.Var, index)
			if by[key] == nil {
				// Absent chunks are reported before memory is allocated and other
				// chunks are read.
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
				// Next chunk of the slab, the last dimension fastest.
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

// check verifies that a slab is inside its array.
func (p *Request) check(a *Array) error {
	if len(p.Slab.Start) != len(a.Shape) || len(p.Slab.Count) != len(a.Shape) {
		return fmt.Errorf("%s: slab %v %v does not match the dimensions", a.Path, p.Slab.Start, p.Slab.Count)
	}
	for i, n := range a.Shape {
		if p.Slab.Start[i] < 0 || p.Slab.Count[i] < 1 || p.Slab.Start[i]+p.Slab.Count[i] > n {
			return fmt.Errorf("%s: slab %v %v exceeds the shape %v", a.Path, p.Slab.Start, p.Slab.Count, a.Shape)
		}
	}
	return nil
}

// runReads executes reads concurrently. It returns the error of the first read in
// the list that has one, so errors do not depend on timing. After an error no
// further reads are started.
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
			// Errors are kept by position, so that the result does not depend on
			// the order of completion.
			if errs[i] = s.readChunk(ctx, j, coordinate); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	g.Wait() // the functions return nil
	if err := ctx.Err(); err != nil {
		return err
	}
	return cmp.Or(errs...)
}

// readChunk decodes one chunk and copies it to its requests.
func (s *Store) readChunk(ctx context.Context, j *chunkRead, coordinate bool) error {
	raw, err := s.cache.get(ctx, j.array, fmt.Sprint(j.index), func() ([]byte, error) { return s.loadChunk(j.array, j.index) })
	if err != nil {
		return err
	}
	// An absent chunk is the fill value. In version 2 xarray marks missing values by it,
	// except in coordinates; null is 0, as in zarr-python.
	gap := math.NaN()
	if coordinate || j.array.version == 3 && j.array.hasFill {
		gap = j.array.fill
	}
	for _, p := range j.parts {
		if err := j.copy(p, raw, gap); err != nil {
			return s.storeError("values cannot be unpacked", "array "+j.array.Path, err)
		}
	}
	return nil
}

// copy copies the overlap of a chunk and a request, row by row.
//
// Shape: raw is a decoded chunk in the storage order of the array; nil is an absent
// chunk, whose values are gap. The result is in C order of the slab.
// Missing: NaN, by the CF attributes.
// Errors: those of unpacking.
func (j *chunkRead) copy(p *Request, raw []byte, gap float64) error {
	a := j.array
	n := len(a.Shape)
	inner := a.innerChunk()
	from, count := make([]int64, n), make([]int64, n) // the overlap, in elements of the chunk
	first, stride := int64(0), int64(1)               // offset and stride of the overlap in the result
	into := make([]int64, n)                          // strides of the result
	for i := n - 1; i >= 0; i-- {
		// The overlap of chunk and slab along dimension i.
		low, high := max(j.index[i]*inner[i], p.Slab.Start[i]), min((j.index[i]+1)*inner[i], p.Slab.Start[i]+p.Slab.Count[i])
		from[i], count[i] = low-j.index[i]*inner[i], high-low
		into[i] = stride
		first += (low - p.Slab.Start[i]) * stride
		stride *= p.Slab.Count[i]
	}
	// Rows run along the last dimension. In a transposed chunk their elements are
	// not contiguous: step is the distance between them.
	strides := a.strides()
	row, step, last := 1, 1, n-1
	if n > 0 {
		row, step = int(count[last]), int(strides[last])
	}
	values := make([]float64, row)
	place := make([]int64, n)
	for {
		// Offsets of the row in the chunk and in the result.
		at, to := int64(0), first
		for i := range n {
			at += (from[i] + place[i]) * strides[i]
			to += place[i] * into[i]
		}
		if raw == nil {
			for k := range values {
				values[k] = gap
			}
		} else {
			a.dtype.readFloats(values, raw, int(at), step)
		}
		// Unpacking row by row keeps the values in the CPU cache.
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

// strides returns the distance, in elements of a decoded chunk, between neighbours
// along each dimension. For chunk shape (c, d) they are (d, 1) in C order and (1,
// c) in F order.
func (a *Array) strides() []int64 {
	out := make([]int64, len(a.order))
	step := int64(1)
	for k := len(a.order) - 1; k >= 0; k-- {
		out[a.order[k]] = step
		step *= a.innerChunk()[a.order[k]]
	}
	return out
}

// chunkKey returns the key of a chunk, or of the shard that holds it.
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

// chunkName names a key in errors.
func (a *Array) chunkName(key string) string { return fmt.Sprintf("array %s, chunk %s", a.Path, key) }

// loadChunk reads and decodes a chunk. It returns nil if the chunk is absent and
// the store is sparse.
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
		// An encoded chunk is at most slightly larger than the decoded one.
		if o.size > 2*maxChunk {
			o.close()
			return nil, s.storeError("a chunk cannot be read", at, fmt.Errorf("%d bytes exceed the limit of %d", o.size, int64(2*maxChunk)))
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
		return nil, s.storeError("a chunk cannot be decoded", at, fmt.Errorf("%d bytes would expand to %d", len(src), size))
	}
	raw, err := decodeChain(a.decoders, src, size)
	if err != nil {
		return nil, s.storeError("a chunk cannot be decoded", at, err)
	}
	// dtype.readFloats expects little-endian elements.
	a.dtype.toLittleEndian(raw)
	return raw, nil
}

// readChunk reads one encoded chunk of a shard; nil if it is absent. It closes the
// shard.
func (s *sharding) readChunk(o *object, key string, chunk []int64) ([]byte, error) {
	defer o.close()
	index, err := s.loadIndex(o, key)
	if err != nil {
		return nil, err
	}
	// Chunks in a shard are indexed in C order.
	inside := int64(0)
	for i, k := range chunk {
		inside = inside*s.chunksPerShard[i] + k%s.chunksPerShard[i]
	}
	offset, length := index[inside][0], index[inside][1]
	if length < 0 {
		return nil, nil
	}
	if length > 2*maxChunk {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", length, int64(2*maxChunk))
	}
	src := make([]byte, length)
	// The index was checked against the size, so a short read means that the shard
	// was truncated since.
	if n, err := o.ReadAt(src, offset); int64(n) < length {
		if err == io.EOF {
			err = errChanged
		}
		return nil, err
	}
	return src, o.check()
}

// FirstAbsentChunk returns the name of the first absent chunk or shard; "" if none
// is absent or the store is sparse. Chunks inside shards are not checked.
func (s *Store) FirstAbsentChunk() string {
	if s.sparse {
		return ""
	}
	for _, a := range s.Arrays {
		// ReadCoordinate accepts the absent chunk of one element.
		if a.text || slices.Contains(a.Shape, 0) || a.elements() == 1 {
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

// absentChunk returns the error of an absent chunk; nil if the store is sparse.
func (s *Store) absentChunk(at string) error {
	if s.sparse {
		return nil
	}
	return &exit.Error{Code: exit.BadData, What: "a chunk is absent", At: s.path + ", " + at,
		Why: "it was lost or never written; other readers return the fill value for it",
		Fix: "fetch the store again; if absent chunks are fill values, set data.allow_missing_chunks: true or --allow-missing-chunks"}
}

// cache keeps decoded chunks and drops the least recently used. Each chunk is
// decoded by one goroutine while others wait for it.
type cache struct {
	mu sync.Mutex
	// entries holds decoded chunks and chunks that are being decoded, by array and
	// index.
	entries map[string]*cacheEntry
	// order lists the keys of decoded chunks, the most recently used first.
	order *list.List
	// bytes is the size of all decoded chunks.
	bytes int
	// decoding bounds the bytes of chunks that are being decoded.
	decoding *semaphore.Weighted
}

// cacheEntry is one chunk. done is closed when raw or err is set.
type cacheEntry struct {
	done     chan struct{}
	raw      []byte
	err      error
	position *list.Element
}

// newCache returns an empty cache.
func newCache() *cache {
	return &cache{entries: map[string]*cacheEntry{}, order: list.New(), decoding: semaphore.NewWeighted(decodeBytes)}
}

// get returns a chunk. decode is called if the chunk is not cached. The bytes must
// not be changed.
func (c *cache) get(ctx context.Context, a *Array, index string, decode func() ([]byte, error)) ([]byte, error) {
	key := a.Path + index
	c.mu.Lock()
	// Another goroutine has decoded the chunk, or is decoding it.
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
		c.mu.Lock() // the goroutine that decoded it was cancelled
	}
	e := &cacheEntry{done: make(chan struct{})}
	c.entries[key] = e
	c.mu.Unlock()
	// The semaphore bounds the memory of concurrent decoders. A chunk above the
	// bound is decoded alone.
	size := min(a.chunkSize()*int64(a.dtype.size), decodeBytes)
	if e.err = c.decoding.Acquire(ctx, size); e.err == nil {
		e.raw, e.err = decode()
		c.decoding.Release(size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(e.done)
	if e.err != nil { // errors are not cached
		delete(c.entries, key)
		return nil, e.err
	}
	e.position = c.order.PushFront(key)
	c.bytes += len(e.raw)
	// Drop the least recently used chunks. Goroutines that still use their bytes
	// keep them alive.
	for c.bytes > cacheBytes {
		oldest := c.order.Back()
		name := oldest.Value.(string)
		c.bytes -= len(c.entries[name].raw)
		delete(c.entries, name)
		c.order.Remove(oldest)
	}
	return e.raw, nil
}
