package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"golang.org/x/sync/errgroup"
)

// SaveFindings writes the results of an experiment into a folder: a table of rows, a page with its images
// and, last, everything as JSON.
//
// Errors: exit 73 and 74.
func SaveFindings[T any](folder, tableFile string, rows []T, page *report.Page, file string, all any) error {
	dir := filepath.Join(folder, "report")
	if err := filesystem.MkdirAll(dir, 0o755); err != nil {
		return exit.CreateError(dir, err)
	}
	if err := table.WriteCSV(filepath.Join(folder, tableFile), rows); err != nil {
		return err
	}
	if err := WritePage(dir, page); err != nil {
		return err
	}
	return jsonfile.Write(filepath.Join(folder, file), all)
}

// PageFile is the file name of the page.
const PageFile = "index.html"

// WritePage writes a page, and each map beside it as PNG, into an existing folder. A page above report.FileLimit has
// further files, index-2.html and so on; those of an earlier page are removed.
//
// Errors: exit 73 and 74.
func WritePage(dir string, page *report.Page) error {
	var pictures errgroup.Group
	pictures.SetLimit(runtime.GOMAXPROCS(0))
	number := 0
	for _, p := range page.Panels {
		if p.PageOnly {
			continue
		}
		number++
		for j := range p.Maps {
			file := filepath.Join(dir, fmt.Sprintf("map-%02d-%d.png", number, j+1))
			pictures.Go(func() error { return exit.CreateError(file, atomicfile.Write(file, p.PNG(j))) })
		}
	}
	if err := pictures.Wait(); err != nil {
		return err
	}
	parts, err := page.Parts(PageFile, report.FileLimit)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(parts) { // the page that links to the others last
		path := filepath.Join(dir, p.Name)
		if err := atomicfile.WriteFile(path, p.Text); err != nil {
			return exit.CreateError(path, err)
		}
	}
	for n := len(parts) + 1; ; n++ {
		path := filepath.Join(dir, report.PartName(PageFile, n))
		if err := filesystem.Remove(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return exit.CreateError(path, err)
		}
	}
}
