package product

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// Format is a file format of products.
type Format string

// The formats.
const (
	NetCDF Format = "netcdf"
	GRIB2  Format = "grib2"
	Zarr   Format = "zarr"  // version 2, which all readers of Zarr support
	Zarr3  Format = "zarr3" // version 3
)

// Formats lists all of them.
var Formats = []Format{NetCDF, GRIB2, Zarr, Zarr3}

// Publication configures the publication of an initialisation and describes its
// sources.
type Publication struct {
	Formats   []Format // nil means NetCDF
	Overwrite Overwrite
	Accepted  string // source (Manifest.SourceID) whose products replace others whatever Overwrite; "": none
	Options

	ConfigChecksum  string
	ExpectedMembers int             // number of members of a complete input; 0 means those used
	CompleteMembers int             // number of complete members in the input; 0 means those used
	MissingMembers  []MissingMember // expected members that were not used
	Degraded        bool            // also without missing members; Warnings give the reason
	Warnings        []string
	Start           time.Time    // start of the work, for the manifest
	Drift           *InputDrift  // nil if unknown
	Departures      []Departure  // the largest of mean, spread and full ensemble's spread; nil if unknown
	Lock            *lease.Lease // Lock is the lock of the initialisation, from Lock; nil lets Publish take it.
}

// formats returns the formats, sorted and without duplicates. The order of
// Publication.Formats does not matter then.
func (pub *Publication) formats() []Format {
	if len(pub.Formats) == 0 {
		return []Format{NetCDF}
	}
	f := slices.Clone(pub.Formats)
	slices.Sort(f)
	return slices.Compact(f)
}

// Manifest returns the manifest of a product without outputs, as FindPublished
// needs it. The fields need no values.
func (pub *Publication) Manifest(p *Product) *Manifest {
	m := &Manifest{
		Record: manifest.Record{Schema: manifestSchema, Status: manifest.OK, Version: p.Version, ConfigChecksum: pub.ConfigChecksum,
			ModelChecksum: p.ModelChecksum, Start: pub.Start.UTC(), Inputs: p.Inputs, Warnings: pub.Warnings},
		Init: p.Init.UTC().Format(time.RFC3339), MembersUsed: p.Members, MembersExpected: cmp.Or(pub.ExpectedMembers, len(p.Members)), MembersComplete: cmp.Or(pub.CompleteMembers, len(p.Members)),
		MembersMissing: append([]MissingMember{}, pub.MissingMembers...), // not nil, so that JSON has an empty list
		ControlPolicy:  p.Control, SpreadDDOF: p.DDOF, Formats: pub.formats(),
		Profile: cmp.Or(string(pub.Profile), "xarray"), Longitude: cmp.Or(string(pub.Longitude), "keep"),
		Quantise: pub.Quantise, Grid: p.Grid.String(), Coupling: p.Coupling, LeadsRead: p.LeadsRead,
		Fallback: p.Fallback, Drift: pub.Drift, Departures: pub.Departures,
	}
	for _, f := range slices.SortedFunc(slices.Values(p.Fields), compare) {
		m.Fields = append(m.Fields, fmt.Sprintf("%s %s %s %s", f.Variable, f.Level, f.Lead, f.Statistic()))
	}
	if p.AtStations != nil {
		m.Stations = p.AtStations.places()
	}
	if pub.Degraded || len(pub.MissingMembers) > 0 || m.MembersComplete < m.MembersExpected {
		m.Status = manifest.Degraded
	}
	return m
}

// places identifies the stations and the method at stations, by a checksum. A change of
// a name or altitude changes the files, and therefore the checksum.
func (p *Product) places() string {
	h := sha256.New()
	for _, s := range p.Locations {
		fmt.Fprintf(h, "%q %q %g %g %g\n", s.ID, s.Name, s.Lat, s.Lon, s.Altitude)
	}
	fmt.Fprintln(h, p.Source)
	return fmt.Sprintf("%d, sha256:%x", len(p.Locations), h.Sum(nil))
}

// Publish writes all files of a product to root/INIT, with SHA256SUMS and the
// manifest. already reports that the same products existed; nothing is written
// then. If the same products exist in other formats, all formats are written.
//
// A new directory appears with all its files at once, and replaces an old one in one
// step. Where the file system cannot exchange two directories, or the old one has files
// of others, the old manifest is removed first and the new one is written last: a reader
// that uses the manifest then sees the old products, none, or the new ones.
//
// Errors: those of WriteNetCDF, WriteGRIB2 and WriteZarr, with nothing published;
// exit 73 if products exist and may not be replaced, the directory cannot be
// written, or another process writes the same initialisation.
func Publish(ctx context.Context, enc Encoder, root string, p *Product, pub Publication) (m *Manifest, already bool, err error) {
	for _, f := range pub.Formats {
		if !slices.Contains(Formats, f) {
			return nil, false, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown format %q", f), Fix: "netcdf, grib2, zarr or zarr3"}
		}
	}
	for _, q := range []*Product{p, p.AtStations} {
		if q == nil {
			continue
		}
		if err := q.check(); err != nil {
			return nil, false, err
		}
	}
	if pub.Lock == nil {
		if pub.Lock, err = Lock(root, p.Init); err != nil {
			return nil, false, err
		}
		defer func() { err = errors.Join(err, pub.Lock.Release()) }()
	}
	dir := InitDir(root, p.Init)
	if err := RefuseLink(dir); err != nil {
		return nil, false, err
	}
	m = pub.Manifest(p)
	if old, err := FindPublished(dir, m, pub.Overwrite, pub.Accepted); err != nil || old != nil {
		return old, old != nil, err
	}
	if old, err := ReadManifest(dir); err == nil && pub.Overwrite != OverwriteAlways && old.hasSameSource(m) { // keep existing formats
		pub.Formats = append(pub.formats(), old.Formats...)
		m.Formats = pub.formats()
	}
	stage, err := atomicfile.TempDir(root, stagePrefix(p.Init))
	if err != nil {
		return nil, false, exit.CreateError(root, err)
	}
	defer filesystem.RemoveAll(stage)
	if m.Outputs, err = writeAll(ctx, enc, stage, p, m.Formats, pub.Options); err != nil {
		return nil, false, atDestination(err, stage, dir)
	}
	if err := m.stamp(); err != nil {
		return nil, false, err
	}
	if err := manifest.Write(stage, m); err != nil {
		return nil, false, err
	}
	if err := atomicfile.RemoveTemporary(stage); err != nil { // which a writer could not remove: they would be published
		return nil, false, exit.CreateError(dir, err)
	}
	err = pub.Lock.Guard(func() error {
		if err := RefuseLink(dir); err != nil { // that appeared meanwhile
			return err
		}
		return exit.CreateError(dir, putInPlace(stage, dir, m))
	})
	if err != nil {
		return nil, false, err
	}
	return m, false, nil
}

// atDestination replaces the temporary directory in the place of an error by the directory of the product.
func atDestination(err error, stage, dir string) error {
	if e := (*exit.Error)(nil); errors.As(err, &e) {
		e.At = strings.Replace(e.At, stage, dir, 1)
	}
	return err
}

// stamp sets the end of the work. SOURCE_DATE_EPOCH replaces start and end.
//
// Errors: exit 64 for an invalid SOURCE_DATE_EPOCH.
func (m *Manifest) stamp() error {
	m.End = time.Now().UTC().Truncate(time.Second)
	if m.Start.IsZero() {
		m.Start = m.End
	}
	t, ok, err := SourceDate()
	if ok {
		m.Start, m.End = t, t
	}
	return err
}

// writeAll writes the files of a product and returns their checksums, by name. NetCDF
// and Zarr have one file or store for each lead, GRIB2 one for each lead, variable and
// statistic (GRIB2Name), stations one NetCDF file and one table for each lead.
func writeAll(ctx context.Context, enc Encoder, dir string, p *Product, formats []Format, o Options) ([]manifest.File, error) {
	var names []string
	if slices.Contains(formats, NetCDF) {
		for _, lead := range p.Leads() {
			name := NetCDFName(p.Init, lead)
			q := p.Select(func(f Field) bool { return f.Lead == lead })
			if err := WriteNetCDF(ctx, enc, filepath.Join(dir, name), q, o); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	if slices.Contains(formats, GRIB2) {
		for _, f := range p.Fields {
			name := GRIB2Name(p.Init, f)
			if slices.Contains(names, name) {
				continue // another level or member of a file that is already written
			}
			q := p.Select(f.sameFile)
			if err := WriteGRIB2(ctx, enc, filepath.Join(dir, name), q, o); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	for _, format := range formats {
		for _, lead := range p.Leads() {
			if zarrVersion[format] == 0 {
				continue
			}
			name := ZarrName(p.Init, lead, format)
			q := p.Select(func(f Field) bool { return f.Lead == lead })
			if err := WriteZarr(filepath.Join(dir, name), q, zarrVersion[format], o); err != nil {
				return nil, err
			}
			files, err := filesOf(dir, name)
			if err != nil {
				return nil, exit.CreateError(dir, err)
			}
			names = append(names, files...)
		}
	}
	if p.AtStations != nil {
		for _, lead := range p.AtStations.Leads() {
			q := p.AtStations.Select(func(f Field) bool { return f.Lead == lead })
			name, tableName := stationsName(p.Init, lead, ".nc"), stationsName(p.Init, lead, ".csv")
			if err := WriteNetCDF(ctx, enc, filepath.Join(dir, name), q, o); err != nil {
				return nil, err
			}
			if err := WriteCSV(filepath.Join(dir, tableName), q); err != nil {
				return nil, err
			}
			names = append(names, name, tableName)
		}
	}
	return manifest.SumBelow(dir, names)
}

// putInPlace puts the staged directory in place of dir: by one rename if it does not
// exist, else by an exchange, after which the stage has the old files, for the caller to
// remove.
func putInPlace(stage, dir string, m *Manifest) error {
	if hasForeign(dir) {
		return replaceFiles(stage, dir, m)
	}
	err := atomicfile.ReplaceDir(stage, dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return replaceFiles(stage, dir, m)
	}
	return err
}

// hasForeign reports whether a directory has files that its manifest does not list, which
// must stay. Temporary files, of a process that was killed, need not. Without a manifest all files may be those of others.
func hasForeign(dir string) bool {
	entries, err := filesystem.ReadDir(dir) // none, if it does not exist
	old, merr := ReadManifest(dir)
	if err != nil || merr != nil {
		return len(entries) > 0
	}
	ours := append(old.TopLevelOutputs(), manifest.Name, manifest.SumsName)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !slices.Contains(ours, e.Name()) && !atomicfile.IsTemporary(e.Name())
	})
}

// replaceFiles moves the staged files to the directory, file by file between removal of
// the old manifest and the new one. Old files go into the stage, for the caller to remove.
//
// After a crash between two steps the directory has no manifest, so it counts as not
// published, and the next run replaces it. Sync after each step keeps the order on disk.
//
// Both directories are open meanwhile: a link that takes the place of one of them is not followed.
func replaceFiles(stage, dir string, m *Manifest) error {
	from, err := filesystem.OpenFolder(stage)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := filesystem.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	sync := func() error { return errors.Join(filesystem.SyncDir(stage), filesystem.SyncDir(dir)) }
	put := func(name string) error { return filesystem.RenameAt(from, name, to, name) }
	takeOut := func(name string) error {
		if err := filesystem.RenameAt(to, name, from, ".old-"+name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	names, stale := m.TopLevelOutputs(), []string(nil)
	if old, err := ReadManifest(dir); err == nil {
		stale = slices.DeleteFunc(old.TopLevelOutputs(), func(name string) bool { return slices.Contains(names, name) })
	}
	for _, name := range names { // rename replaces files atomically, but not directories
		if st, err := filesystem.Lstat(filepath.Join(dir, name)); err == nil && st.IsDir() {
			stale = append(stale, name)
		}
	}
	for _, name := range []string{manifest.Name, manifest.SumsName} {
		if err := takeOut(name); err != nil {
			return err
		}
	}
	if err := sync(); err != nil {
		return err
	}
	for _, name := range stale {
		if err := takeOut(name); err != nil {
			return err
		}
	}
	for _, name := range append(names, manifest.SumsName) {
		if err := put(name); err != nil {
			return err
		}
	}
	if err := sync(); err != nil {
		return err
	}
	if err := put(manifest.Name); err != nil {
		return err
	}
	return sync()
}

// InitDir returns the directory of an initialisation's products below root.
func InitDir(root string, init ensemble.Init) string { return filepath.Join(root, InitName(init)) }
