package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/table"
)

// MetaFile is the name of the file with the metadata of a store. It is written
// last.
const MetaFile = "store.json"

// Files of a store. The journal exists only while the store is written.
const (
	metaName   = "store.json"
	indexName  = "index.parquet"
	shardDir   = "shards"
	journalDir = "journal"
	planName   = "plan.json"
	inputsName = "inputs.json"
)

func shardName(k int) string   { return fmt.Sprintf("%s/%05d.bin", shardDir, k) }
func journalName(k int) string { return fmt.Sprintf("%s/%05d.json", journalDir, k) }

// Reader reads fields, as fio.Input does. visit is called in the order of entries.
type Reader interface {
	Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error
}

// FieldSource is a list of fields and their reader.
type FieldSource struct {
	Reader Reader
	// Entries lists the fields, each once.
	Entries []ensemble.Entry
}

// Plan defines the content of a store.
type Plan struct {
	// Axes, Members, Grid and Inits are those of the forecasts.
	Axes    ensemble.Axes
	Members []ensemble.Member
	Grid    *ensemble.Grid
	// Interpolation describes how the sources interpolate fields to Grid; empty
	// without interpolation. A store that was begun is resumed only with the same
	// one.
	Interpolation string
	Naming        ensemble.Naming // states names and units of the inputs in their place
	Inits         []ensemble.Init // ascending
	// Storage is the type of stored values.
	Storage Storage
	// Forecasts holds all fields of the axes, members and initialisations, each
	// once.
	Forecasts FieldSource

	// AnalysisVariables is nil for a store without analyses.
	AnalysisVariables []string
	// AnalysisLeads: analyses are valid at the initialisation plus these leads.
	AnalysisLeads []ensemble.Lead
	// Analyses holds all analyses, at lead 0, each once.
	Analyses FieldSource

	// Inputs lists all input files.
	Inputs []manifest.File
	// InputChecksums of these files are kept in the store for the next Write.
	InputChecksums []InputChecksum
	Warnings       []string
	// Version of the program.
	Version string
}

// Options configures Write. The zero value is the default. Only the sizes change
// bytes of the store.
type Options struct {
	// Workers is the number of shards written concurrently; 0 means one per
	// processor.
	Workers int
	// Memory in bytes, see Write; 0 means DefaultMemory.
	Memory int64
	// ShardSize in bytes, at least one initialisation; 0 means 256 MiB.
	ShardSize int64
	// BandSize in bytes, at least one row; 0 makes bands as small as their headers allow.
	BandSize int64
	// Overwrite replaces an existing store that was made from other inputs, once the new one is complete.
	Overwrite bool
	// Progress is called with the number of finished shards, from several
	// goroutines; nil disables it.
	Progress func(done, all int)
	// Validate is called after all fields were read, before store.json is written.
	// It verifies that the inputs are unchanged and returns warnings about their
	// values; nil disables it.
	Validate func() (warnings []string, err error)
}

// DefaultMemory is the default of Options.Memory.
const DefaultMemory = 1 << 30

const (
	defaultShard = 256 << 20
)

// Result describes the work of Write.
type Result struct {
	Meta *Meta
	// Complete reports that the store existed and nothing was written.
	Complete bool
	// Reused is the number of valid shards of an interrupted run.
	Reused int
	// Outputs lists all files of the store.
	Outputs []string
}

// testHook is called after each stage of writing. Tests end the process there.
var testHook = func(stage string) {}

// Write creates a store in a directory, or resumes one that was interrupted.
// Finished shards with a correct checksum are reused. A store that replaces another
// one is written beside it, and takes its place in one step once it is complete; the
// disk needs room for both. Where folders cannot be exchanged, the metadata of the old
// store are removed first and those of the new one are written last.
//
// Memory: Options.Memory bounds the memory of all workers: decoded fields, band
// headers and buffers. A worker has one initialisation open and writes each field
// directly to its position, so an initialisation may exceed the memory. The
// catalogue of the input and the memory of the Reader are not included.
// Errors: 64 for an invalid plan; 65 for fields that are missing, duplicate, on
// another grid or outside of the range of the storage type; 69 if the memory is too
// small for one worker; 73 for a directory with other files, another store or
// another writer; 74 for a full disk; ctx.Err(). Finished shards stay.
func Write(ctx context.Context, dir string, p Plan, o Options) (r *Result, err error) {
	w, err := newWriter(dir, p, o)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.MkdirAll(dir, 0o777); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	if w.places, err = placesOf(dir); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	// The lease excludes other writers, on other machines too.
	if w.lease, err = rundir.TakeLease(dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.lease.Release()) }()
	if r, err = w.prepareFolder(); err != nil {
		return nil, err
	}
	if p.InputChecksums != nil {
		list := inputList{Files: p.InputChecksums}
		if err := w.writeSealed(inputsName, &list, &list.Checksum); err != nil {
			return nil, err
		}
	}
	if r == nil {
		if r, err = w.complete(ctx); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.putInPlace(), w.discardReplaced()); err != nil {
		return nil, err
	}
	return r, nil
}

// complete writes what is missing of the store.
func (w *writer) complete(ctx context.Context) (*Result, error) {
	if err := w.checkSpace(); err != nil {
		return nil, err
	}
	if err := w.writeShards(ctx); err != nil {
		return nil, err
	}
	return w.finish()
}

// Size returns the bytes of the shards that Write would make from a plan. The plan
// needs no entries.
//
// Errors: 64 for an invalid plan.
func Size(p Plan) (int64, error) {
	w, err := newWriter("", p, Options{})
	if err != nil {
		return 0, err
	}
	var bytes int64
	for k := range w.layout.shards() {
		bytes += w.shardSize(k)
	}
	return bytes, nil
}

// writer is the state of one Write.
type writer struct {
	out  string // folder of the store
	dir  string // folder that is written: out, or replacement while out has another store
	plan Plan
	opt  Options
	meta *Meta
	*layout
	places
	forecasts map[ensemble.Init][]ensemble.Entry
	analyses  map[ensemble.Valid][]ensemble.Entry
	// window is the number of fields that a worker requests at once.
	window  int
	workers int
	lease   *lease.Lease
	reused  atomic.Int64
	done    atomic.Int64
}

// newWriter checks plan and options and computes the layout.
func newWriter(dir string, p Plan, o Options) (*writer, error) {
	w := &writer{out: dir, dir: dir, plan: p, opt: o, forecasts: map[ensemble.Init][]ensemble.Entry{}, analyses: map[ensemble.Valid][]ensemble.Entry{}}
	if w.opt.Memory == 0 {
		w.opt.Memory = DefaultMemory
	}
	if w.opt.Workers == 0 {
		w.opt.Workers = runtime.GOMAXPROCS(0)
	}
	if w.opt.ShardSize == 0 {
		w.opt.ShardSize = defaultShard
	}
	if w.opt.Workers < 0 || w.opt.Memory < 0 || w.opt.ShardSize < 0 || w.opt.BandSize < 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "a negative number of workers or bytes", Fix: "leave it 0 for the default"}
	}
	if err := w.describe(); err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "invalid plan of a store", At: dir, Why: err.Error(), Fix: "correct the configuration", Err: err}
	}
	for _, e := range byFilePosition(p.Forecasts.Entries) {
		w.forecasts[e.Init] = append(w.forecasts[e.Init], e)
	}
	for _, e := range byFilePosition(p.Analyses.Entries) {
		w.analyses[e.Valid()] = append(w.analyses[e.Valid()], e)
	}
	return w, w.divideMemory()
}

// byFilePosition orders entries by position in their files, so that files are read
// sequentially.
func byFilePosition(entries []ensemble.Entry) []ensemble.Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b ensemble.Entry) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Message - b.Message
	})
	return out
}

// describe computes the metadata of the store from the plan.
func (w *writer) describe() error {
	p := w.plan
	seconds := func(leads []ensemble.Lead) ([]int64, error) {
		var out []int64
		for _, l := range leads {
			if time.Duration(l)%time.Second != 0 {
				return nil, fmt.Errorf("lead %s is not an integer number of seconds", l)
			}
			out = append(out, int64(time.Duration(l)/time.Second))
		}
		return out, nil
	}
	m := &Meta{Schema: schema, Format: Format, Version: p.Version, Storage: p.Storage, Levels: p.Axes.Levels, Intervals: p.Axes.Statistics, Members: p.Members,
		Grid: p.Grid, Interpolation: p.Interpolation, Naming: p.Naming, Origins: ensemble.Origins(p.Forecasts.Entries), Inputs: p.Inputs, Warnings: append([]string{}, p.Warnings...), BandRows: 1, ShardInits: 1,
		Analyses: Analyses{Variables: p.AnalysisVariables}}
	var err error
	if m.Leads, err = seconds(p.Axes.Leads); err != nil {
		return err
	}
	if m.Analyses.Leads, err = seconds(p.AnalysisLeads); err != nil {
		return err
	}
	unit := map[string]string{}
	for _, e := range p.Forecasts.Entries {
		unit[e.Variable] = e.Unit
	}
	for _, v := range p.Axes.Variables {
		m.Variables = append(m.Variables, Variable{v, unit[v]})
	}
	for _, s := range p.Inits {
		if s.Nanosecond() != 0 {
			return fmt.Errorf("initialisation %s is not an integer number of seconds", s)
		}
		m.InitTimes = append(m.InitTimes, s.Time)
	}
	if err := m.checkPlan(); err != nil {
		return err
	}
	l, err := m.layout() // with bands of one row
	if err != nil {
		return err
	}
	rowBytes := int64(l.fields) * l.fieldBytes(1)
	m.BandRows = bandRows(m.Grid, rowBytes, l.head)
	if size := w.opt.BandSize; size > 0 {
		m.BandRows = int(max(1, min(size/max(rowBytes, 1), int64(m.Grid.NY)), int64(m.Grid.NY+maxBands-1)/maxBands))
	}
	if l, err = m.layout(); err != nil {
		return err
	}
	m.ShardInits = int(max(1, min(w.opt.ShardSize/l.initBytes, maxCount)))
	if w.layout, err = m.layout(); err != nil {
		return err
	}
	w.meta = m
	m.Identity, err = m.identity()
	return err
}

// buffer is the size of the buffer for reading back.
const buffer = 1 << 20

// divideMemory divides the memory among workers.
func (w *writer) divideMemory() error {
	field := 4 * int64(w.ny) * int64(w.nx)
	lo, hi := w.rows(0)
	// Memory of a worker besides decoded fields: band headers, one encoded band of
	// a field, and the buffer for reading back.
	fixed := int64(w.fields)*int64(w.bands)*recordBytes + 2*w.head + w.fieldBytes(hi-lo) + buffer
	w.workers = int(min(int64(w.opt.Workers), int64(w.layout.shards()), w.opt.Memory/(fixed+field)))
	if w.workers == 0 {
		return &exit.Error{Code: exit.NoDevice, What: "the memory is too small", At: "--memory",
			Why: fmt.Sprintf("%d bytes are allowed, one worker needs %d", w.opt.Memory, fixed+field), Fix: "increase --memory"}
	}
	w.window = int((w.opt.Memory/int64(w.workers) - fixed) / field)
	return nil
}

// checkSpace verifies that the file system has room for the shards that do not
// exist yet.
func (w *writer) checkSpace() error {
	var need uint64
	for k := range w.layout.shards() {
		if _, err := filesystem.Stat(filepath.Join(w.dir, journalName(k))); err != nil {
			need += uint64(w.shardSize(k))
		}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(w.dir, &s); err != nil {
		return nil // unknown; writing reports a full disk
	}
	// Failing before the first shard is better than after hours.
	if free := s.Bavail * uint64(s.Bsize); free < need {
		return &exit.Error{Code: exit.IO, What: "no space left", At: w.dir,
			Why: fmt.Sprintf("%d bytes are needed, %d are free; nothing was written", need, free), Fix: "free some space; rerun the same command", Err: unix.ENOSPC}
	}
	return nil
}

// writeShards writes all missing shards.
func (w *writer) writeShards(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	next := make(chan int)
	g.Go(func() error {
		defer close(next)
		for k := range w.layout.shards() {
			select {
			case next <- k:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range w.workers {
		g.Go(func() error {
			s := newShardWriter(w)
			for k := range next {
				if err := w.lease.CheckHeld(); err != nil {
					return err
				}
				if w.isFinished(k) {
					w.reused.Add(1)
				} else if err := s.writeShard(ctx, k); err != nil {
					return err
				}
				if done := int(w.done.Add(1)); w.opt.Progress != nil {
					w.opt.Progress(done, w.layout.shards())
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// journalEntry is the journal of a finished shard, sealed by manifest.SealedJSON.
type journalEntry struct {
	Checksum   string        `json:"checksum"`
	Shard      manifest.File `json:"shard"`
	Bands      []Row         `json:"bands"`
	Statistics []Statistic   `json:"statistics"`
}

// readJournal reads the journal of a shard.
func (w *writer) readJournal(k int) (*journalEntry, error) {
	path := filepath.Join(w.dir, journalName(k))
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	e := &journalEntry{}
	return e, decodeSealed(text, path, e, "remove the file and run again")
}

// isFinished reports whether a shard exists and matches its journal.
func (w *writer) isFinished(k int) bool {
	e, err := w.readJournal(k)
	if err != nil || e.Shard.Path != shardName(k) || e.Shard.Size != w.shardSize(k) {
		return false
	}
	f, err := manifest.SumFile(filepath.Join(w.dir, shardName(k)))
	return err == nil && f.Size == e.Shard.Size && f.SHA256 == e.Shard.SHA256
}

// finish writes the index and, last, the metadata.
func (w *writer) finish() (*Result, error) {
	m := w.meta
	m.Shards, m.Statistics = nil, m.statistics()
	var rows []Row
	for k := range w.layout.shards() {
		e, err := w.readJournal(k)
		if err != nil {
			return nil, err
		}
		m.Shards = append(m.Shards, e.Shard)
		rows = append(rows, e.Bands...)
		for i, s := range e.Statistics {
			m.Statistics[i].merge(s)
		}
	}
	index := filepath.Join(w.dir, indexName)
	if err := table.Write(index, rows); err != nil {
		return nil, err
	}
	testHook("index written")
	f, err := manifest.SumBelow(w.dir, []string{indexName})
	if err != nil {
		return nil, err
	}
	m.Index = f[0]
	var sums strings.Builder
	for _, f := range append(slices.Clone(m.Shards), m.Index) {
		fmt.Fprintf(&sums, "%s  %s\n", f.SHA256, f.Path)
	}
	path := filepath.Join(w.dir, manifest.SumsName)
	if err := atomicfile.WriteFile(path, []byte(sums.String())); err != nil {
		return nil, exit.CreateError(path, err)
	}
	testHook("sums written")
	if err := errors.Join(m.check(), w.lease.CheckHeld()); err != nil {
		return nil, err
	}
	if w.opt.Validate != nil {
		warnings, err := w.opt.Validate()
		if err != nil {
			return nil, err
		}
		m.Warnings = append(m.Warnings, warnings...)
	}
	if err := w.lease.Guard(func() error { return w.writeSealed(metaName, m, &m.Checksum) }); err != nil {
		return nil, err
	}
	testHook("description written")
	return w.result(), w.discardJournal()
}

// result describes a store that is complete.
func (w *writer) result() *Result {
	r := &Result{Meta: w.meta, Reused: int(w.reused.Load())}
	for _, name := range w.meta.files() {
		r.Outputs = append(r.Outputs, filepath.Join(w.out, filepath.FromSlash(name)))
	}
	return r
}

// discardJournal removes the journal of a complete store.
func (w *writer) discardJournal() error {
	dir := filepath.Join(w.dir, journalDir)
	return exit.CreateError(dir, filesystem.RemoveAll(dir))
}

// writeSealed writes a JSON file with its checksum atomically.
func (w *writer) writeSealed(name string, v any, checksum *string) error {
	text, err := manifest.SealedJSON(v, checksum, " ")
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, name)
	return exit.CreateError(path, atomicfile.WriteFile(path, text))
}
