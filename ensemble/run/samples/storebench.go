package samples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/directio"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// StoreBenchOptions are the inputs of [StoreBench].
type StoreBenchOptions struct {
	Dir      string
	Inits    int                // number to read; 0: all
	Prefetch int                // as data.prefetch; 0: default
	Direct   bool               // as data.direct_io
	Seed     uint64             // seed of the order
	Progress *progress.Reporter // nil shows nothing
}

// StoreReport is how fast a store is read in random order, from a cold disk and without caching, compared
// with the disk's sequential rate.
type StoreReport struct {
	Store    string `json:"store"`
	Storage  string `json:"storage"`
	Inits    int    `json:"inits"`
	Bytes    int64  `json:"bytes"`    // bytes of these samples
	Prefetch int    `json:"prefetch"` // samples read ahead

	DiskBytesPerS float64 `json:"disk_bytes_s"` // sequential rate of one reader of whole shards in blocks of BlockBytes
	BlockBytes    int     `json:"block_bytes"`
	Direct        bool    `json:"direct"` // past the page cache; false: the shards were dropped from it instead

	StreamDirect bool `json:"stream_direct"` // StoreBenchOptions.Direct

	Seconds   float64 `json:"seconds"` // time of streaming
	BytesPerS float64 `json:"bytes_s"` // rate of streaming
	Ratio     float64 `json:"ratio"`   // to the disk's rate
	// FromDisk is what the kernel read from the disk while streaming: less than Bytes if data were in the page
	// cache; −1 if unknown.
	FromDisk int64 `json:"from_disk_bytes"`
	// HotBytesPerS is the rate from the page cache: checksums, decoding and copies.
	HotBytesPerS float64 `json:"page_cache_bytes_s"`
	// Predicted is the simulator's time for the same reads at these two rates.
	Predicted float64 `json:"predicted_s"`
	PeakMiB   float64 `json:"peak_mib"` // resident memory of the process
}

// Parameters of the measurement: block size of sequential reads, bytes read from the page cache and
// repetitions, and the number of alternations of sequential reads and streaming, so that a drifting disk rate
// affects both alike.
const (
	benchBlock    = 16 << 20
	benchHot      = 256 << 20
	benchHotTimes = 4
	benchTurns    = 8
)

// StoreBench measures how fast a store is read in random order.
//
// Reads: the shards of the store, once sequentially and once in random order.
// Memory: samples that are read ahead, and one block.
// Errors: those of store.Open and of reading; ctx.Err().
func StoreBench(ctx context.Context, o StoreBenchOptions) (*StoreReport, error) {
	s, err := store.Open(ctx, o.Dir, store.OpenOptions{Direct: o.Direct})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all, err := s.Select(store.Selection{})
	if err != nil {
		return nil, err
	}
	inits := s.Inits()
	if o.Inits > 0 {
		inits = inits[:min(o.Inits, len(inits))]
	}
	if o.Prefetch == 0 {
		o.Prefetch = config.DefaultPrefetch
	}
	origin := storedExamples{all, inits}
	from, err := loader.New(origin, loader.Options{Prefetch: o.Prefetch})
	if err != nil {
		return nil, err
	}
	n := int64(len(inits))
	r := &StoreReport{Store: o.Dir, Storage: string(s.Storage), Inits: len(inits), Bytes: n * origin.Size().Stored, Prefetch: o.Prefetch, BlockBytes: benchBlock, Direct: true, StreamDirect: o.Direct}
	schedule := loader.Schedule{Seed: o.Seed, Samples: len(inits), Epochs: 1, Batch: 1, Readers: 1}
	reads := schedule.Reads(0)
	shards := (len(inits) + s.ShardInits - 1) / s.ShardInits
	var paths []string
	for _, f := range s.Shards[:shards] {
		paths = append(paths, filepath.Join(o.Dir, filepath.FromSlash(f.Path)))
	}
	task := o.Progress.Start("bench", benchTurns)
	defer task.Done()
	var plain, streamed time.Duration
	var plainBytes, fromDisk int64
	block := bigmem.Bytes(bigmem.Make[float32](benchBlock / 4))
	for i := range benchTurns {
		part := paths[i*len(paths)/benchTurns : (i+1)*len(paths)/benchTurns]
		for _, path := range part {
			if err := directio.DropCache(path); err != nil {
				return nil, exit.ReadError(path, err)
			}
		}
		began := time.Now()
		for _, path := range part {
			bytes, direct, err := readPlain(ctx, path, block)
			if err != nil {
				return nil, exit.ReadError(path, err)
			}
			plainBytes, r.Direct = plainBytes+bytes, r.Direct && direct
		}
		plain += time.Since(began)
		for _, path := range paths {
			if err := directio.DropCache(path); err != nil {
				return nil, exit.ReadError(path, err)
			}
		}
		before := bytesFromDisk()
		took, err := timeStream(ctx, from, reads[i*len(reads)/benchTurns:(i+1)*len(reads)/benchTurns])
		if err != nil {
			return nil, err
		}
		streamed += took
		fromDisk += bytesFromDisk() - before
		task.Set(int64(i+1), "")
	}
	r.DiskBytesPerS, r.Seconds = float64(plainBytes)/plain.Seconds(), streamed.Seconds()
	r.BytesPerS = float64(r.Bytes) / r.Seconds
	r.Ratio = r.BytesPerS / r.DiskBytesPerS
	if r.FromDisk = fromDisk; bytesFromDisk() < 0 {
		r.FromDisk = -1
	}
	if r.PeakMiB, err = setup.PeakMiB(); err != nil {
		return nil, err
	}
	warm, err := store.Open(ctx, o.Dir, store.OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer warm.Close()
	if origin.SelectionReader, err = warm.Select(store.Selection{}); err != nil {
		return nil, err
	}
	if from, err = loader.New(origin, loader.Options{Prefetch: o.Prefetch}); err != nil {
		return nil, err
	}
	few := reads[:min(len(reads), max(o.Prefetch, int(benchHot/origin.Size().Stored)))]
	if _, err := timeStream(ctx, from, few); err != nil { // fills the page cache
		return nil, err
	}
	hot := slices.Repeat(few, benchHotTimes)
	took, err := timeStream(ctx, from, hot)
	if err != nil {
		return nil, err
	}
	r.HotBytesPerS = float64(len(hot)) * float64(origin.Size().Stored) / took.Seconds()
	r.Predicted = loader.Simulate(r.system(origin.Size().Stored), schedule, loader.UniformSizes(len(inits), origin.Size().Stored), loader.Clairvoyant).Total
	return r, nil
}

// system returns the parameters for the simulator: one thread can reach the disk's rate, all together not
// more, and training takes no time.
func (r *StoreReport) system(bytes int64) *loader.System {
	free := loader.ConstantRate(math.MaxFloat64)
	return &loader.System{FileSystem: loader.ConstantRate(r.DiskBytesPerS), Link: r.DiskBytesPerS, Decode: r.HotBytesPerS / float64(r.Prefetch), Compute: math.MaxFloat64,
		Staging: loader.Cache{Capacity: int64(r.Prefetch) * bytes, Threads: r.Prefetch, Read: free, Write: free}}
}

// readPlain reads a file sequentially, past the page cache if possible.
func readPlain(ctx context.Context, path string, block []byte) (bytes int64, direct bool, err error) {
	f, direct, err := directio.Open(path)
	if err != nil {
		return 0, direct, err
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return bytes, direct, err
		}
		n, err := f.Read(block)
		bytes += int64(n)
		if err == io.EOF {
			return bytes, direct, nil
		}
		if err != nil {
			return bytes, direct, err
		}
	}
}

// timeStream times the reading of samples without using them.
func timeStream(ctx context.Context, from *source, reads []int) (time.Duration, error) {
	began := time.Now()
	next := from.Stream(ctx, reads)
	defer next.Close()
	for {
		if _, err := next.Next(); errors.Is(err, io.EOF) {
			return time.Since(began), nil
		} else if err != nil {
			return 0, err
		}
	}
}

// bytesFromDisk is what the kernel has read from disks for this process; −1 if unknown.
func bytesFromDisk() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscanf(line, "read_bytes: %d", &n); err == nil {
			return n
		}
	}
	return -1
}

// Sections returns the report as text.
func (r *StoreReport) Sections() answer.Sections {
	var rows [][2]string
	row := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	row("store", "%s, %s, %d samples, %.4g GB", r.Store, r.Storage, r.Inits, float64(r.Bytes)/1e9)
	how := "past the page cache"
	if !r.Direct {
		how = "through the page cache, emptied before"
	}
	row("disk", "%.4g MB/s: whole shards in blocks of %d MiB, %s", r.DiskBytesPerS/1e6, r.BlockBytes>>20, how)
	row("streamed", "%.4g MB/s in random order, %d samples ahead: %.1f %% of the disk's rate", r.BytesPerS/1e6, r.Prefetch, 100*r.Ratio)
	row("", "%s", map[bool]string{false: "through the page cache", true: "past the page cache"}[r.StreamDirect])
	if r.FromDisk >= 0 {
		row("from the disk", "%.1f %% of the streamed bytes", 100*float64(r.FromDisk)/float64(r.Bytes))
	}
	row("page cache", "%.4g MB/s: checksums and decoding", r.HotBytesPerS/1e6)
	row("time", "%.3g s, predicted %.3g s", r.Seconds, r.Predicted)
	row("peak memory", "%.0f MiB", r.PeakMiB)
	return answer.Sections{answer.FactsSection(rows...)}
}
