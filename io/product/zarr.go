package product

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// zarrVersion gives the version of Zarr of a format, 0 for other formats.
var zarrVersion = map[Format]int{Zarr: 2, Zarr3: 3}

// WriteZarr writes the fields of one lead as a Zarr store of version 2 or 3 in a
// new directory: variables, dimensions and attributes as in WriteNetCDF for xarray,
// one chunk per field, consolidated metadata.
//
// Shape, Unit, Missing: as WriteNetCDF.
// Errors: exit 70 for an invalid product; exit 64 for invalid Options; exit 73 and
// 74 for files that cannot be written.
// Source: Zarr storage specification version 2; Zarr core specification 3.0;
// xarray's encoding of dimensions and fill values.
func WriteZarr(path string, p *Product, version int, o Options) error {
	o.Profile = XarrayProfile // CDOProfile applies to NetCDF only
	o, err := o.check()
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	b, err := productFile(p, o)
	if err != nil {
		return layoutError(path, err)
	}
	all := make([]byte, b.size)
	for _, fill := range b.fill {
		fill(all)
	}
	if err := replaceFolder(path, func(tmp string) error {
		return zarr.Write(filepath.Join(tmp, "store"), &b.file, all, version)
	}); err != nil {
		return exit.CreateError(path, err)
	}
	return nil
}

// replaceFolder lets fill create the directory "store" in a temporary one, and
// renames it to path, which must not exist.
func replaceFolder(path string, fill func(tmp string) error) error {
	tmp, err := atomicfile.TempDir(filepath.Dir(path), "."+filepath.Base(path)+".partial-")
	if err != nil {
		return err
	}
	defer filesystem.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := filesystem.Rename(filepath.Join(tmp, "store"), path); err != nil {
		return err
	}
	return filesystem.SyncDir(filepath.Dir(path))
}

// filesOf lists the files of a directory below dir, as names for a manifest. Walking is
// in lexical order, so manifests of equal stores are equal.
func filesOf(dir, folder string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(filepath.Join(dir, folder), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	return names, err
}
