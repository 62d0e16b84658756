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

// sharding says how chunks lie in the shards of an array.
//
// Source: Zarr sharding codec 1.0.
type sharding struct {
	chunk          []int64 // shape of a chunk inside a shard
	chunksPerShard []int64 // such chunks along each dimension of a shard
	count          int64   // of them in a shard
	checksummed    bool    // the index ends with its CRC32C
	atStart        bool

	mu      sync.Mutex
	indexes map[string]shardIndex // by key, of shards read lately
}

// shardIndex is where the chunks of a shard lie: where each begins and how long it is, or
// the length -1 for one that is absent.
type shardIndex struct {
	modified time.Time // of the shard
	chunks   [][2]int64
}

// maxCachedIndexes bounds the indexes that are kept.
const maxCachedIndexes = 64

// maxShardChunks bounds the chunks of one shard.
const maxShardChunks = 1 << 20

// parseSharding reads the configuration of the sharding codec. The codecs inside become the steps
// of the array.
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
		return fmt.Errorf("chunks %v in shards %v", c.Shape, a.chunk)
	}
	for i, n := range c.Shape {
		if n < 1 || a.chunk[i]%n != 0 {
			return fmt.Errorf("chunks %v in shards %v", c.Shape, a.chunk)
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
		case i == 0 && n.Name == "bytes" && b.Endian == "little":
		case i == 1 && n.Name == "crc32c":
			s.checksummed = true
		default:
			return unusedf("the index of its shards has the codec %.60q", n.Name)
		}
	}
	if len(c.Index) == 0 {
		return errors.New("no codec makes bytes of the index of a shard")
	}
	inside := *a
	if err := inside.parseCodecs3(c.Codecs); err != nil {
		return err
	}
	if inside.sharded != nil {
		return unusedf("its shards hold shards")
	}
	a.order, a.stored, a.decoders, a.dtype = inside.order, inside.stored, inside.decoders, inside.dtype
	a.sharded = s
	return nil
}

// indexSize is the bytes of an index.
func (s *sharding) indexSize() int64 {
	n := 16 * s.count
	if s.checksummed {
		n += 4
	}
	return n
}

// loadIndex gives the index of a shard.
//
// Errors: a shard that is shorter than its index, a wrong checksum, chunks that lie
// outside of the shard.
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

// readIndex reads and parses it.
func (s *sharding) readIndex(o *object) ([][2]int64, error) {
	n := s.indexSize()
	if o.size < n {
		return nil, fmt.Errorf("a shard of %d bytes, its index has %d", o.size, n)
	}
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

// parse reads the bytes of an index of a shard of so many bytes.
func (s *sharding) parse(raw []byte, size int64) ([][2]int64, error) {
	if s.checksummed {
		var err error
		if raw, err = decodeCRC32C(raw, len(raw)); err != nil {
			return nil, fmt.Errorf("the index of the shard: %w", err)
		}
	}
	out := make([][2]int64, s.count)
	for i := range out {
		offset, length := binary.LittleEndian.Uint64(raw[16*i:]), binary.LittleEndian.Uint64(raw[16*i+8:])
		switch {
		case offset == math.MaxUint64 && length == math.MaxUint64:
			out[i] = [2]int64{0, -1}
		case offset > uint64(size) || length > uint64(size)-offset:
			return nil, fmt.Errorf("chunk %d of the shard at byte %d with %d bytes, the shard has %d", i, offset, length, size)
		default:
			out[i] = [2]int64{int64(offset), int64(length)}
		}
	}
	return out, nil
}
