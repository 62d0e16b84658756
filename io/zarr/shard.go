package zarr

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// sharding describes the layout of chunks in the shards of an array.
//
// Source: Zarr sharding codec 1.0 (sharding_indexed).
type sharding struct {
	// chunk is the shape of a chunk inside a shard.
	chunk []int64
	// chunksPerShard is the number of chunks along each dimension of a shard.
	chunksPerShard []int64
	// count is the number of chunks in a shard, absent ones included.
	count int64
	// checksummed reports that the index ends with its CRC-32C.
	checksummed bool
	// atStart reports that the index is at the start of the shard. The default is
	// the end.
	atStart bool

	mu sync.Mutex
	// indexes caches the indexes of recently used shards by key.
	indexes map[string]shardIndex
}

// shardIndex holds offset and length of each chunk of a shard. Length -1 is an
// absent chunk.
type shardIndex struct {
	// modified is the modification time of the shard, by which a cached index is
	// validated.
	modified time.Time
	// chunks holds offset and length of each chunk, in C order.
	chunks [][2]int64
}

// maxCachedIndexes bounds the cached indexes.
const maxCachedIndexes = 64

// maxShardChunks bounds the chunks of one shard.
const maxShardChunks = 1 << 20

// parseSharding parses the configuration of the sharding codec: chunk_shape,
// codecs, index_codecs, index_location. The inner codecs become those of the array.
func (a *Array) parseSharding(conf json.RawMessage) error {
	var c struct {
		Shape    []int64           `json:"chunk_shape"`
		Codecs   []json.RawMessage `json:"codecs"`
		Index    []json.RawMessage `json:"index_codecs"`
		Location string            `json:"index_location"`
	}
	if err := json.Unmarshal(conf, &c); err != nil {
		return err
	}
	s := &sharding{chunk: c.Shape, count: 1, atStart: c.Location == "start"}
	if len(c.Shape) != len(a.chunk) {
		return fmt.Errorf("chunks %v do not divide shards %v", c.Shape, a.chunk)
	}
	for i, n := range c.Shape {
		// Chunks must divide the shard evenly.
		if n < 1 || a.chunk[i]%n != 0 {
			return fmt.Errorf("chunks %v do not divide shards %v", c.Shape, a.chunk)
		}
		s.chunksPerShard = append(s.chunksPerShard, a.chunk[i]/n)
		if s.count > maxShardChunks/s.chunksPerShard[i] {
			return unusedf("its shards have more than %d chunks", maxShardChunks)
		}
		s.count *= s.chunksPerShard[i]
	}
	if c.Location != "" && c.Location != "start" && c.Location != "end" {
		return fmt.Errorf("index_location is %q", c.Location)
	}
	for i, raw := range c.Index {
		var n namedConfig
		var b struct {
			Endian string `json:"endian"`
		}
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		if len(n.Configuration) > 0 {
			if err := json.Unmarshal(n.Configuration, &b); err != nil {
				return err
			}
		}
		switch {
		// The specification requires a codec of fixed size for the index. Writers
		// use bytes, optionally with crc32c.
		case i == 0 && n.Name == "bytes" && b.Endian == "little":
		case i == 1 && n.Name == "crc32c":
			s.checksummed = true
		default:
			return unusedf("the index of its shards has the codec %.60q, which is not supported", n.Name)
		}
	}
	if len(c.Index) == 0 {
		return errors.New("index_codecs is empty")
	}
	// The inner codecs are parsed on a copy, which must not be sharded itself.
	inside := *a
	if err := inside.parseCodecs3(c.Codecs); err != nil {
		return err
	}
	if inside.sharded != nil {
		return unusedf("its shards contain shards, which is not supported")
	}
	a.order, a.stored, a.decoders, a.dtype = inside.order, inside.stored, inside.decoders, inside.dtype
	a.sharded = s
	return nil
}

// indexSize returns the bytes of an index: offset and length of each chunk as
// uint64, and the checksum.
func (s *sharding) indexSize() int64 {
	n := 16 * s.count
	if s.checksummed {
		n += 4
	}
	return n
}

// loadIndex returns the index of a shard, from the cache if the shard is unchanged.
//
// Errors: a shard that is shorter than its index, a wrong checksum, chunks outside
// of the shard.
func (s *sharding) loadIndex(o *object, key string) ([][2]int64, error) {
	s.mu.Lock()
	known, ok := s.indexes[key]
	s.mu.Unlock()
	if ok && known.modified.Equal(o.modified) {
		return known.chunks, nil
	}
	chunks, err := s.readIndex(o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexes == nil || len(s.indexes) >= maxCachedIndexes {
		s.indexes = map[string]shardIndex{}
	}
	s.indexes[key] = shardIndex{o.modified, chunks}
	return chunks, nil
}

// readIndex reads and parses the index of a shard.
func (s *sharding) readIndex(o *object) ([][2]int64, error) {
	n := s.indexSize()
	if o.size < n {
		return nil, fmt.Errorf("a shard of %d bytes is shorter than its index of %d", o.size, n)
	}
	// The index is at the end by default.
	at := o.size - n
	if s.atStart {
		at = 0
	}
	raw := make([]byte, n)
	if k, err := o.ReadAt(raw, at); int64(k) < n {
		if err == io.EOF {
			err = errChanged
		}
		return nil, err
	}
	return s.parse(raw, o.size)
}

// parse parses an index. size is the length of the shard.
//
//	chunk 0: offset uint64, length uint64
//	chunk 1: offset uint64, length uint64
//	…
//	CRC-32C uint32, if index_codecs has crc32c
//
// All numbers are little-endian. An absent chunk has offset and length 2⁶⁴−1.
//
// Source: Zarr sharding codec 1.0, binary shard format.
func (s *sharding) parse(raw []byte, size int64) ([][2]int64, error) {
	if s.checksummed {
		var err error
		if raw, err = decodeCRC32C(raw, len(raw)); err != nil {
			return nil, fmt.Errorf("the index of the shard: %w", err)
		}
	}
	out := make([][2]int64, s.count)
	for i := range out {
		// Chunks may lie in any order and with gaps, but only inside the shard.
		offset, length := binary.LittleEndian.Uint64(raw[16*i:]), binary.LittleEndian.Uint64(raw[16*i+8:])
		switch {
		case offset == math.MaxUint64 && length == math.MaxUint64:
			out[i] = [2]int64{0, -1}
		case offset > uint64(size) || length > uint64(size)-offset:
			return nil, fmt.Errorf("chunk %d at byte %d with %d bytes exceeds the shard of %d bytes", i, offset, length, size)
		default:
			out[i] = [2]int64{int64(offset), int64(length)}
		}
	}
	return out, nil
}
