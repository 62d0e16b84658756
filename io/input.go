package fio

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/balance"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/unit"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// Options configures Open. The zero value is the default: a pool of its own, any damage is an
// error, all fields with a time are kept, no cache, and quantities, units and members as the files
// state them.
type Options struct {
	Decode decode.Options // Decode configures the pool of children. It is ignored if Pool is set.
	// Pool is used instead of a pool of the Input. Closing the Input does not close
	// it.
	Pool *decode.Pool
	// SkipBad lists damaged messages in Catalogue.Unused and continues. By default
	// any damage is an error.
	SkipBad bool
	// SkipFiles skips files that are absent, unreadable or of unknown format,
	// unless all are.
	SkipFiles bool
	Sparse    bool // Sparse accepts absent chunks of Zarr stores: the fill value, where it is a value, and else missing values.
	// Static adds fields without a time, such as land masks. Their initialisation is
	// zero.
	Static bool
	// Keep reports whether a field may be read later; nil keeps all. Of the other
	// fields the catalogue keeps one for each variable, level, lead, member and
	// product, so that it still lists the available ones. Memory is that of the
	// kept fields.
	Keep    func(e ensemble.Entry) bool
	Cache   string        // Cache is a directory for indexes of GRIB files; "" disables the cache.
	Members MemberOptions // Members selects and numbers members.
	// Naming states quantities and units of variables in place of the files.
	Naming ensemble.Naming
}

// Input is a set of indexed files and stores. Its methods may be called from several
// goroutines. The catalogue does not change after Open; what changes later has its own
// lock.
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
	free         [][]float32   // recycled buffers
	skipped      []*exit.Error // errors of files that were skipped
	excluded     excludedKinds

	memberCounts memberCounts
	naming       namingUse
	messages     sync.Pool // of *[]byte, buffers of GRIB messages
}

// excludedKinds holds one field of each kind that Options.Keep excludes, without
// initialisation.
type excludedKinds struct {
	mu      sync.Mutex
	entries map[ensemble.Identity]ensemble.Entry
}

// file is one file of an input, or a directory that is a store. The index functions
// set the fields below format.
type file struct {
	path   string
	size   int64
	f      filesystem.File  // nil for a directory
	mark   fingerprint.File // identity when it was opened; not set for a directory
	format *format

	messages   int
	entries    []ensemble.Entry // until they are in the catalogue
	entryIndex []int32          // their positions in the catalogue, by message
	sections   map[fieldPosition]*grib.Sections
	slabs      []variableSlabs
	unused     []ensemble.Unused
	warnings   []string
	faults     []*exit.Error
	zarr       *zarr.Store
}

// Open indexes files: their structure, and the metadata of each field. It reads no
// values. The catalogue does not depend on the order of paths.
//
// Errors: *exit.Error: 66 for an absent file; 65 for an unknown format or damage
// (More lists all damage of all files); 69 if decoding children cannot run;
// ctx.Err().
func Open(ctx context.Context, paths []string, o Options) (*Input, error) {
	if len(paths) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "no input files", Fix: "give at least one GRIB file, NetCDF file or Zarr store"}
	}
	in := &Input{opt: o, pool: o.Pool, byName: map[string]*file{}}
	in.excluded.entries = map[ensemble.Identity]ensemble.Entry{}
	if err := in.open(ctx, paths); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// open detects and indexes all files and builds the catalogue. Files are indexed
// concurrently, as many as there are children. Faults of all files are collected before
// one is returned, so that a user corrects them in one go.
func (in *Input) open(ctx context.Context, paths []string) error {
	seen := map[string]bool{}
	var faults []*exit.Error
	for _, p := range paths {
		id := p
		if abs, err := filesystem.Absolute("", p); err == nil {
			id = abs
		}
		if seen[id] {
			in.cat.Warnings = append(in.cat.Warnings, p+" is listed twice and read once")
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
	if err := in.pool.Announce(in.Files()); err != nil {
		return err
	}
	task := progress.Start(ctx, "open files", int64(len(in.files)))
	defer task.Done()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(in.pool.Size())
	// The largest file comes first, or its index would be made last and alone.
	sizes := make([]int64, len(in.files))
	for i, f := range in.files {
		sizes[i] = f.size
	}
	for _, i := range balance.Descending(sizes) {
		f := in.files[i]
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
			task.Add(1)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return in.buildCatalogue()
}

// filter removes the entries that Options.Keep excludes. Of each excluded kind the first
// entry stays, in the order of Entry.Compare, so the catalogue does not depend on which
// file was indexed first.
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

// joinFaults returns the first fault with the others in More. Bad data has
// precedence over absent files, because waiting does not help.
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

// maxReported bounds the faults in More.
const maxReported = 9

// buildCatalogue merges the results of all files. Entries move from the files into one
// sorted list; for each file an index of 32 bits for an entry remains.
//
// Errors: the damage of all files without Options.SkipBad; exit 66 for a centre without
// members.
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
	in.warnUnnumbered()
	in.indexEntries()
	slices.SortFunc(in.cat.Unused, func(a, b ensemble.Unused) int {
		return compareFileMessage(a.File, b.File, a.Message, b.Message)
	})
	slices.Sort(in.cat.Warnings)
	return nil
}

// compareFileMessage orders by file, then by message. The result is negative, 0 or
// positive, as of cmp.Compare.
func compareFileMessage(a, b string, m, n int) int {
	if a != b {
		if a < b {
			return -1
		}
		return 1
	}
	return m - n
}

// basisOf returns what a mean or spread over members is of. Products of this program
// state it in their long name; GRIB has no code for it, so products in GRIB state it in
// the name of their file. The result is "" for other products and for those of other
// programs, whose basis is unknown.
func basisOf(p ensemble.Product, longName, path string) string {
	if p != ensemble.EnsembleMean && p != ensemble.Spread {
		return ""
	}
	name := filepath.Base(path)
	switch {
	case strings.Contains(longName, "of the members used"), strings.Contains(name, "_raw_mean."), strings.Contains(name, "_raw_spread."):
		return ensemble.RawMembers
	case strings.Contains(longName, "full ensemble"), strings.Contains(name, "_ensemble_spread."):
		return ensemble.FullEnsemble
	}
	return ""
}

// VerifyUnchanged verifies that files have not changed since they were indexed:
// those in paths, or all.
//
// Errors: exit 66 if a file was replaced or modified.
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

// verifyUnchanged verifies that a file has not changed since it was indexed.
func (f *file) verifyUnchanged() error {
	if f.zarr != nil {
		return f.zarr.VerifyUnchanged()
	}
	return f.mark.Verify(f.path)
}

// Catalogue returns the catalogue. It is shared and must not be changed.
func (in *Input) Catalogue() *ensemble.Catalogue { return &in.cat }

// Files returns the files in the order in which they were given. Files that could not be
// opened are not among them.
func (in *Input) Files() []string {
	out := make([]string, len(in.files))
	for i, f := range in.files {
		out[i] = f.path
	}
	return out
}

// Faults returns the damage that Options.SkipBad tolerated; nil without damage. It is a
// *exit.Error; More has up to nine others. A caller that continues after damage reports it.
func (in *Input) Faults() error {
	return JoinDamage(in.Damage())
}

// JoinDamage joins faults as Faults does.
func JoinDamage(faults []*exit.Error) error {
	if len(faults) == 0 {
		return nil
	}
	return joinFaults(faults)
}

// Damage lists the errors of Faults and those of files that Options.SkipFiles
// skipped.
func (in *Input) Damage() []*exit.Error {
	return in.DamageOf(func(ensemble.Init) bool { return true })
}

// DamageOf lists the damage that may concern some initialisations: all of Damage, without that of files whose
// readable fields all belong to other initialisations.
func (in *Input) DamageOf(concerns func(ensemble.Init) bool) []*exit.Error {
	own, others := map[string]bool{}, map[string]bool{}
	for _, e := range in.cat.Entries {
		if concerns(e.Init) {
			own[e.File] = true
		} else {
			others[e.File] = true
		}
	}
	faults := in.skipped[:len(in.skipped):len(in.skipped)]
	for _, f := range in.files {
		if own[f.path] || !others[f.path] {
			faults = append(faults, f.faults...)
		}
	}
	return faults
}

// Close ends the children and closes the files. It waits for running requests if the
// pool is the input's own. Fields that were read stay valid.
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

// Conversion returns the conversion of an entry from the unit of its file to SI. For an
// entry of another input it is the identity. Fields that were read are in SI already; the
// conversion is for limits and reports.
//
// Source: CF conventions 1.8, section 3.1: units are those of UDUNITS.
func (in *Input) Conversion(e ensemble.Entry) unit.Conversion {
	if fd, err := in.find(e); err == nil {
		return fd.conv
	}
	return unit.Conversion{SI: e.Unit, Scale: 1}
}
