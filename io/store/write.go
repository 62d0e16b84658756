package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/table"
)

// MetaFile is the file that says what a store holds, written last.
const MetaFile = "store.json"

// The files of a store. The journal is there only while the store is written.
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

// Reader reads fields, as fio.Input does: visit is called in the order of entries.
type Reader interface {
	Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error
}

// FieldSource is fields and what reads them.
type FieldSource struct {
	Reader  Reader
	Entries []ensemble.Entry
}

// Plan says what is to be in a store.
type Plan struct {
	Axes    ensemble.Axes
	Members []ensemble.Member
	Grid    *ensemble.Grid
	// Interpolation says how the Archives bring fields to Grid, so that a store that was
	// begun is not gone on with in another way; empty if they need not.
	Interpolation string
	Inits         []ensemble.Init // ascending
	Storage       Storage
	Forecasts     FieldSource // all fields of the axes, members and starts, each once

	AnalysisVariables []string        // none for a store without analyses
	AnalysisLeads     []ensemble.Lead // valid times of a start's analyses
	Analyses          FieldSource     // all of them at lead 0, each once

	Inputs         []manifest.File // the files that all is read from
	InputChecksums []InputChecksum // of these files, kept beside the store for the next Write
	Warnings       []string
	Version        string // of the program
}

// Options say how to write. The zero value is the default; none of them but the sizes
// changes a bit of the store.
type Options struct {
	Workers   int   // shards written at once; 0 means one for each processor
	Memory    int64 // bytes, see Write; 0 means DefaultMemory
	ShardSize int64 // bytes of a shard, at least one start; 0 means 256 MiB
	BandSize  int64 // bytes of a band, at least one row; 0 means 16 MiB
	Overwrite bool  // remove a store that is there and was made from something else
	// Progress is told how many shards are done; nil drops it. It is called by several
	// goroutines.
	Progress func(done, all int)
	// Validate is asked before the description is written, when all is read, whether the input
	// is as it was when its checksums were taken and what is to be said of its values;
	// nil finds nothing.
	Validate func() (warnings []string, err error)
}

// DefaultMemory is the bound of Write's memory unless it is told.
const DefaultMemory = 1 << 30

const (
	defaultShard = 256 << 20
	defaultBand  = 16 << 20
)

// Result says what Write did.
type Result struct {
	Meta     *Meta
	Complete bool // the store was there; nothing was written
	Reused   int  // shards of an interrupted run that were sound
	Outputs  []string
}

// testHook is told which stage of writing was passed; tests end the process there.
var testHook = func(stage string) {}

// Write makes a store in a folder, or goes on with one that was interrupted: shards
// that are finished and have their checksum are kept.
//
// Memory: Options.Memory bounds what all workers have in use at once: decoded fields, heads
// of bands and buffers. A worker has one start open and writes each field to its place
// as it comes, so that starts may be larger than the memory. The catalogue of the
// input and what the Reader needs beside the fields it was asked for come on top.
// Errors: 64 for a plan that is impossible; 65 for fields that are missing, come twice,
// are on another grid or have values that cannot be stored; 69 if the memory is less
// than one worker needs; 73 for a folder that holds something else, another store or
// another writer; 74 for a full disk; ctx.Err(). What was finished stays.
func Write(ctx context.Context, dir string, p Plan, o Options) (r *Result, err error) {
	w, err := newWriter(dir, p, o)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	lease, err := rundir.TakeLease(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	w.leaseLost = lease.CheckHeld
	done, err := w.prepareFolder()
	if err == nil && p.InputChecksums != nil {
		err = w.writeJSON(inputsName, p.InputChecksums)
	}
	if done != nil || err != nil {
		return done, err
	}
	if err := w.checkSpace(); err != nil {
		return nil, err
	}
	if err := w.writeShards(ctx); err != nil {
		return nil, err
	}
	return w.finish()
}

// Size is the number of bytes of the shards that Write makes of a plan, for which it needs
// no entries.
//
// Errors: 64 for a plan that is impossible.
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

// writer is one call of Write.
type writer struct {
	dir  string
	plan Plan
	opt  Options
	meta *Meta
	*layout
	forecasts map[ensemble.Init][]ensemble.Entry
	analyses  map[ensemble.Valid][]ensemble.Entry
	window    int // fields that a worker asks for at once
	workers   int
	leaseLost func() error
	reused    atomic.Int64
	done      atomic.Int64
}

func newWriter(dir string, p Plan, o Options) (*writer, error) {
	w := &writer{dir: dir, plan: p, opt: o, forecasts: map[ensemble.Init][]ensemble.Entry{}, analyses: map[ensemble.Valid][]ensemble.Entry{}}
	if w.opt.Memory == 0 {
		w.opt.Memory = DefaultMemory
	}
	if w.opt.Workers == 0 {
		w.opt.Workers = runtime.GOMAXPROCS(0)
	}
	if w.opt.ShardSize == 0 {
		w.opt.ShardSize = defaultShard
	}
	if w.opt.BandSize == 0 {
		w.opt.BandSize = defaultBand
	}
	if w.opt.Workers < 0 || w.opt.Memory < 0 || w.opt.ShardSize < 0 || w.opt.BandSize < 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "a negative number of workers or bytes", Fix: "leave it 0 for the default"}
	}
	if err := w.describe(); err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "a store cannot be made of this", At: dir, Why: err.Error(), Fix: "correct the configuration", Err: err}
	}
	for _, e := range byFilePosition(p.Forecasts.Entries) {
		w.forecasts[e.Init] = append(w.forecasts[e.Init], e)
	}
	for _, e := range byFilePosition(p.Analyses.Entries) {
		w.analyses[e.Valid()] = append(w.analyses[e.Valid()], e)
	}
	return w, w.divideMemory()
}

// byFilePosition orders entries as they lie in the files, so that files are read forward.
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

// describe makes the description of the store from the plan.
func (w *writer) describe() error {
	p := w.plan
	seconds := func(leads []ensemble.Lead) ([]int64, error) {
		var out []int64
		for _, l := range leads {
			if time.Duration(l)%time.Second != 0 {
				return nil, fmt.Errorf("lead %s is no whole number of seconds", l)
			}
			out = append(out, int64(time.Duration(l)/time.Second))
		}
		return out, nil
	}
	m := &Meta{Schema: schema, Format: Format, Version: p.Version, Storage: p.Storage, Levels: p.Axes.Levels, Members: p.Members,
		Grid: p.Grid, Interpolation: p.Interpolation, Origins: ensemble.Origins(p.Forecasts.Entries), Inputs: p.Inputs, Warnings: append([]string{}, p.Warnings...), BandRows: 1, ShardInits: 1,
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
			return fmt.Errorf("start %s is no whole second", s)
		}
		m.InitTimes = append(m.InitTimes, s.Time)
	}
	if err := m.checkPlan(); err != nil {
		return err
	}
	l, err := m.layout() // of bands of one row
	if err != nil {
		return err
	}
	m.BandRows = bandRows(m.Grid, int64(l.fields)*l.fieldBytes(1), w.opt.BandSize)
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

// buffer is the size of the pieces in which a start is read back.
const buffer = 1 << 20

// divideMemory divides the memory among workers.
func (w *writer) divideMemory() error {
	field := 4 * int64(w.ny) * int64(w.nx)
	lo, hi := w.rows(0)
	fixed := int64(w.fields)*int64(w.bands)*recordBytes + 2*w.head + w.fieldBytes(hi-lo) + buffer
	w.workers = int(min(int64(w.opt.Workers), int64(w.layout.shards()), w.opt.Memory/(fixed+field)))
	if w.workers == 0 {
		return &exit.Error{Code: exit.NoDevice, What: "the memory is too small", At: "--memory",
			Why: fmt.Sprintf("%d bytes are allowed, one worker needs %d", w.opt.Memory, fixed+field), Fix: "allow more"}
	}
	w.window = int((w.opt.Memory/int64(w.workers) - fixed) / field)
	return nil
}

// prepareFolder decides what the content of the folder means. It gives a result if the store
// is there already.
func (w *writer) prepareFolder() (*Result, error) {
	refuse := func(what, why, fix string) error {
		return &exit.Error{Code: exit.CannotWrite, What: what, At: w.dir, Why: why, Fix: fix}
	}
	const another = "choose another folder, or begin again with --overwrite always"
	old, err := os.ReadFile(filepath.Join(w.dir, metaName))
	switch {
	case err == nil:
		if m, err := readMeta(w.dir, old); err == nil && m.Identity == w.meta.Identity && w.filesComplete(m) {
			return &Result{Meta: m, Complete: true, Reused: w.layout.shards()}, w.discardJournal()
		}
		if !w.opt.Overwrite {
			return nil, refuse("the folder holds another store", "it is damaged, or was made from other inputs or with another configuration", another)
		}
		if err := w.clearFolder(); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, exit.CreateError(w.dir, err)
	}
	plan, err := os.ReadFile(filepath.Join(w.dir, journalDir, planName))
	switch {
	case err == nil:
		var begun Meta
		if json.Unmarshal(plan, &begun) == nil && begun.Identity == w.meta.Identity {
			return nil, w.removePartial()
		}
		if !w.opt.Overwrite {
			return nil, refuse("another store was begun in the folder", "it was to be made from other inputs or with another configuration", another)
		}
		if err := w.clearFolder(); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, exit.CreateError(w.dir, err)
	}
	if err := w.refuseForeign(refuse); err != nil {
		return nil, err
	}
	if err := w.clearFolder(); err != nil { // of one that was killed before its plan was written
		return nil, err
	}
	for _, sub := range []string{shardDir, journalDir} {
		if err := os.MkdirAll(filepath.Join(w.dir, sub), 0o777); err != nil {
			return nil, exit.CreateError(filepath.Join(w.dir, sub), err)
		}
	}
	return nil, w.writeJSON(filepath.Join(journalDir, planName), w.meta)
}

// refuseForeign refuses a folder with files that are not a store's.
func (w *writer) refuseForeign(refuse func(what, why, fix string) error) error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return exit.CreateError(w.dir, err)
	}
	own := []string{shardDir, journalDir, indexName, inputsName, manifest.SumsName}
	for _, e := range entries {
		if n := e.Name(); !slices.Contains(own, n) && !rundir.IsLeaseFile(n) {
			return refuse("the folder is not empty", "it holds "+n+" and no store", "choose another folder")
		}
	}
	return nil
}

// filesComplete tells whether the files of a store are there, by their sizes.
func (w *writer) filesComplete(m *Meta) bool {
	for _, f := range append(slices.Clone(m.Shards), m.Index) {
		if s, err := os.Stat(filepath.Join(w.dir, filepath.FromSlash(f.Path))); err != nil || s.Size() != f.Size {
			return false
		}
	}
	return true
}

// clearFolder removes a store, its description first, so that a clear that is interrupted
// leaves none. Files that are not a store's stay, and their folders with them.
func (w *writer) clearFolder() error {
	if err := w.removePartial(); err != nil {
		return err
	}
	for _, pattern := range []string{metaName, manifest.SumsName, indexName, journalDir + "/" + planName, journalDir + "/[0-9]*.json", shardDir + "/[0-9]*.bin"} {
		if err := w.remove(pattern); err != nil {
			return err
		}
	}
	return exit.CreateError(w.dir, atomicfile.Sync(w.dir))
}

// removePartial removes the unfinished files of a writer that was killed. The lease says that it
// is dead.
func (w *writer) removePartial() error {
	for _, dir := range []string{"", shardDir + "/", journalDir + "/"} {
		if err := w.remove(dir + ".*.partial-*"); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the files of the store whose names match a pattern.
func (w *writer) remove(pattern string) error {
	names, err := fs.Glob(os.DirFS(w.dir), pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.Remove(path); err != nil {
			return exit.CreateError(path, err)
		}
	}
	return nil
}

// checkSpace verifies that the shards that are not there yet will fit.
func (w *writer) checkSpace() error {
	var need uint64
	for k := range w.layout.shards() {
		if _, err := os.Stat(filepath.Join(w.dir, journalName(k))); err != nil {
			need += uint64(w.shardSize(k))
		}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(w.dir, &s); err != nil {
		return nil // a file system that does not say; writing will
	}
	if free := s.Bavail * uint64(s.Bsize); free < need {
		return &exit.Error{Code: exit.IO, What: "no space left", At: w.dir,
			Why: fmt.Sprintf("%d bytes are needed, %d are free; nothing was written", need, free), Fix: "free some space; rerun the same command", Err: unix.ENOSPC}
	}
	return nil
}

// writeShards makes all shards that are not there.
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
				if err := w.leaseLost(); err != nil {
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

// journalEntry is what the journal says of a finished shard.
type journalEntry struct {
	Shard      manifest.File `json:"shard"`
	Bands      []Row         `json:"bands"`
	Statistics []Statistic   `json:"statistics"`
}

// readJournal reads the journal of a shard.
func (w *writer) readJournal(k int) (*journalEntry, error) {
	path := filepath.Join(w.dir, journalName(k))
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	e := &journalEntry{}
	if err := json.Unmarshal(text, e); err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the journal is damaged", At: path, Why: err.Error(), Fix: "remove the file and run again", Err: err}
	}
	return e, nil
}

// isFinished tells whether a shard is there and is what the journal says.
func (w *writer) isFinished(k int) bool {
	e, err := w.readJournal(k)
	if err != nil || e.Shard.Path != shardName(k) || e.Shard.Size != w.shardSize(k) {
		return false
	}
	f, err := manifest.SumFile(filepath.Join(w.dir, shardName(k)))
	return err == nil && f.Size == e.Shard.Size && f.SHA256 == e.Shard.SHA256
}

// finish writes the index and, last of all, the description.
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
	if err := errors.Join(m.check(), w.leaseLost()); err != nil {
		return nil, err
	}
	if w.opt.Validate != nil {
		warnings, err := w.opt.Validate()
		if err != nil {
			return nil, err
		}
		m.Warnings = append(m.Warnings, warnings...)
	}
	if err := w.writeJSON(metaName, m); err != nil {
		return nil, err
	}
	testHook("description written")
	r := &Result{Meta: m, Reused: int(w.reused.Load()), Outputs: []string{filepath.Join(w.dir, metaName), index, path}}
	for _, s := range m.Shards {
		r.Outputs = append(r.Outputs, filepath.Join(w.dir, filepath.FromSlash(s.Path)))
	}
	return r, w.discardJournal()
}

// discardJournal removes the journal of a store that is complete.
func (w *writer) discardJournal() error {
	dir := filepath.Join(w.dir, journalDir)
	return exit.CreateError(dir, os.RemoveAll(dir))
}

func (w *writer) writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, name)
	return exit.CreateError(path, atomicfile.WriteFile(path, append(text, '\n')))
}
