package fio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/unit"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// Options of Open; the zero value is the default.
type Options struct {
	// Decode limits the children; ignored if Pool is given.
	Decode decode.Options
	// Pool to use instead of an own one; it is not closed with the Input.
	Pool *decode.Pool
	// SkipBad puts damaged messages into Catalogue.Unused and goes on; by default
	// any damage in any file is an error.
	SkipBad bool
	// SkipFiles leaves files out that are absent, of another kind or cannot be read,
	// unless that is all of them.
	SkipFiles bool
	// Sparse takes absent chunks of Zarr stores for missing values.
	Sparse bool
	// Keep says which fields will be asked for; nil means any. Of the others the catalogue
	// has one of each variable, level, lead, member and product, so that it still says what
	// there is, and memory is that of the fields that are kept.
	Keep func(e ensemble.Entry) bool
	// Cache is a folder in which indexes of GRIB files are kept for their next opening; empty
	// keeps none.
	Cache string
	// Members says whose fields are members, and which.
	Members MemberOptions
}

// Input is a set of files and stores, indexed. Its methods may be called from several
// goroutines.
type Input struct {
	opt          Options
	pool         *decode.Pool
	ownPool      bool
	files        []*file
	grids        grib.GridCache
	gridTable    gridTable
	cat          ensemble.Catalogue
	byName       map[string]*file
	kinds        kindTable
	descriptions descriptionCache
	freeMu       sync.Mutex    // of free
	free         [][]float32   // values that were given back
	skipped      []*exit.Error // of files that were left out
	excluded     excludedKinds

	memberCounts memberCounts
	messages     sync.Pool // of *[]byte, GRIB messages that are being unpacked
}

// excludedKinds is one of each kind of fields that Options.Keep does not keep, without starts.
type excludedKinds struct {
	mu      sync.Mutex
	entries map[ensemble.Identity]ensemble.Entry
}

// file is one file of an input, or a folder that is a store. The index functions fill
// everything below format.
type file struct {
	path   string
	size   int64
	f      *os.File         // nil for a folder
	mark   fingerprint.File // when it was opened; of no folder
	format *format

	messages   int
	entries    []ensemble.Entry // until they are in the catalogue
	entryIndex []int32          // where they are there, by message
	sections   map[fieldPosition]*grib.Sections
	slabs      []variableSlabs
	unused     []ensemble.Unused
	warnings   []string
	faults     []*exit.Error
	zarr       *zarr.Store
}

// Open indexes files: their structure, then what each field in them is. No values
// are read. The catalogue does not depend on the order of paths.
//
// Errors: *exit.Error, 66 for a file that is not there, 65 for one that is no
// GRIB, NetCDF or Zarr or is damaged (all damage of all files, in More), 69 if decoding
// children cannot run; ctx.Err().
func Open(ctx context.Context, paths []string, o Options) (*Input, error) {
	if len(paths) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "no input files", Fix: "name at least one GRIB or NetCDF file or Zarr store"}
	}
	in := &Input{opt: o, pool: o.Pool, byName: map[string]*file{}}
	in.excluded.entries = map[ensemble.Identity]ensemble.Entry{}
	if err := in.open(ctx, paths); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

func (in *Input) open(ctx context.Context, paths []string) error {
	seen := map[string]bool{}
	var faults []*exit.Error
	for _, p := range paths {
		id := p
		if abs, err := filepath.Abs(p); err == nil {
			id = abs
		}
		if seen[id] {
			in.cat.Warnings = append(in.cat.Warnings, p+" is named twice and read once")
			continue
		}
		seen[id] = true
		f, err := detect(p)
		if err != nil {
			var e *exit.Error
			if !errors.As(err, &e) {
				return err
			}
			faults = append(faults, e)
			continue
		}
		in.files = append(in.files, f)
	}
	if len(faults) > 0 && (!in.opt.SkipFiles || len(in.files) == 0) {
		return joinFaults(faults)
	}
	in.skipped = faults
	if in.pool == nil {
		pool, err := decode.NewPool(in.opt.Decode)
		if err != nil {
			return err
		}
		in.pool, in.ownPool = pool, true
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(in.pool.Size())
	for _, f := range in.files {
		g.Go(func() error {
			err := f.format.index(gctx, in, f)
			var bad *exit.Error
			if in.opt.SkipFiles && errors.As(err, &bad) && (bad.Code == exit.BadData || bad.Code == exit.IO) {
				f.faults, err = append(f.faults, bad), nil
			}
			if err != nil {
				return err
			}
			in.assignMembers(f)
			in.filter(f)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return in.buildCatalogue()
}

// filter drops the entries of a file that are not kept.
func (in *Input) filter(f *file) {
	if in.opt.Keep == nil {
		return
	}
	in.excluded.mu.Lock()
	defer in.excluded.mu.Unlock()
	var kept []ensemble.Entry
	for _, e := range f.entries {
		if in.opt.Keep(e) {
			kept = append(kept, e)
			continue
		}
		kind := e.Identity()
		kind.Init = ensemble.Init{}
		if first, ok := in.excluded.entries[kind]; !ok || e.Compare(first) < 0 {
			in.excluded.entries[kind] = e
		}
	}
	f.entries = kept
}

// joinFaults makes one error of several faults: the first, with the others behind it.
// A file that is absent weighs less than one that is bad: waiting does not help.
func joinFaults(faults []*exit.Error) error {
	first := slices.IndexFunc(faults, func(e *exit.Error) bool { return e.Code == exit.BadData })
	first = max(first, 0)
	e := *faults[first]
	e.More = append(append([]*exit.Error(nil), faults[:first]...), faults[first+1:]...)
	if len(e.More) > maxReported {
		more := len(e.More) - maxReported
		e.More = append(e.More[:maxReported:maxReported], &exit.Error{Code: e.Code, What: fmt.Sprintf("%d more faults", more), At: "the same input"})
	}
	return &e
}

// maxReported faults are shown beside the first.
const maxReported = 9

// buildCatalogue makes the catalogue of what the files hold.
func (in *Input) buildCatalogue() error {
	var faults []*exit.Error
	fields := len(in.excluded.entries)
	for _, f := range in.files {
		fields += len(f.entries)
	}
	in.cat.Entries = make([]ensemble.Entry, 0, fields)
	for _, f := range in.files {
		faults = append(faults, f.faults...)
		in.cat.Messages += f.messages
		in.cat.Unused = append(in.cat.Unused, f.unused...)
		in.cat.Warnings = append(in.cat.Warnings, f.warnings...)
		in.cat.Entries = append(in.cat.Entries, f.entries...)
		in.byName[f.path] = f
		f.entryIndex, f.entries = make([]int32, 0, len(f.entries)), nil
	}
	if len(faults) > 0 && !in.opt.SkipBad {
		return joinFaults(faults)
	}
	warnings, err := in.memberCounts.report(in.opt.Members)
	if err != nil {
		return err
	}
	in.cat.Warnings = append(in.cat.Warnings, warnings...)
	for _, e := range in.excluded.entries {
		in.cat.Entries = append(in.cat.Entries, e)
	}
	slices.SortFunc(in.cat.Entries, ensemble.Entry.Compare)
	in.indexEntries()
	slices.SortFunc(in.cat.Unused, func(a, b ensemble.Unused) int {
		return compareFileMessage(a.File, b.File, a.Message, b.Message)
	})
	slices.Sort(in.cat.Warnings)
	return nil
}

func compareFileMessage(a, b string, m, n int) int {
	if a != b {
		if a < b {
			return -1
		}
		return 1
	}
	return m - n
}

// VerifyUnchanged verifies that some files, or all, are those that were indexed.
//
// Errors: exit 66 if one was replaced, or grew, or was written to.
func (in *Input) VerifyUnchanged(paths ...string) error {
	for _, f := range in.files {
		if len(paths) > 0 && !slices.Contains(paths, f.path) {
			continue
		}
		if err := f.verifyUnchanged(); err != nil {
			return err
		}
	}
	return nil
}

// verifyUnchanged verifies that a file is the one that was indexed.
func (f *file) verifyUnchanged() error {
	if f.zarr != nil {
		return f.zarr.VerifyUnchanged()
	}
	return f.mark.Verify(f.path)
}

// Catalogue says what the input holds. It is shared and must not be changed.
func (in *Input) Catalogue() *ensemble.Catalogue { return &in.cat }

// Files lists the files in the order in which they were given.
func (in *Input) Files() []string {
	out := make([]string, len(in.files))
	for i, f := range in.files {
		out[i] = f.path
	}
	return out
}

// Faults is the damage found, if Options.SkipBad let it pass; nil if there is none.
func (in *Input) Faults() error {
	if faults := in.Damage(); len(faults) > 0 {
		return joinFaults(faults)
	}
	return nil
}

// Damage lists all that Faults joins, and the files that Options.SkipFiles left out.
func (in *Input) Damage() []*exit.Error {
	faults := in.skipped[:len(in.skipped):len(in.skipped)]
	for _, f := range in.files {
		faults = append(faults, f.faults...)
	}
	return faults
}

// Close ends the children and closes the files.
func (in *Input) Close() {
	for _, f := range in.files {
		if f.f != nil {
			f.f.Close()
		}
		if f.zarr != nil {
			f.zarr.Close()
		}
	}
	if in.ownPool {
		in.pool.Close()
	}
}

// Conversion is how the values of an entry's file become SI.
func (in *Input) Conversion(e ensemble.Entry) unit.Conversion {
	if fd, err := in.find(e); err == nil {
		return fd.conv
	}
	return unit.Conversion{SI: e.Unit, Scale: 1}
}
