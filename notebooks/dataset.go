package notebooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/internal/version"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Dataset is a set of forecast files with their verifying analyses.
type Dataset struct {
	files    []string // absolute, sorted
	analyses []string
	cached   bool
	folder   string // of all results, absolute
	summary  *summary
	err      error
}

// Err returns the error of a dataset that MustOpen or MustDemo could not open in a declaration, or nil.
func (d *Dataset) Err() error { return d.err }

func (d *Dataset) setErr(err error) { d.err = err }

// summary is the inventory of the forecast files.
type summary struct {
	Version   string
	Marks     []fingerprint.File // of the files, in their order
	Rows      [][]any            // of check.GroupColumns
	Grids     []string
	Variables []variableSummary
	Leads     []ensemble.Lead
	Members   []ensemble.Member
	Inits     []initSummary
	Unused    int
}

// variableSummary contains the levels of a variable with ensemble members.
type variableSummary struct {
	Name   string
	Levels []ensemble.Level
}

// initSummary contains the files with fields of one initialisation time.
type initSummary struct {
	Init  ensemble.Init
	Files []string
}

// Open opens the forecast files that match a pattern such as "fc/*.grib2", or the files in a
// folder: GRIB files, NetCDF files or Zarr stores. It reads their metadata, not their values.
// Accepts Analyses, Cached and In.
//
// Errors: 64 for options that it does not accept, 65 for damaged files, 66 if no file matches.
func Open(pattern string, opts ...Option) (*Dataset, error) {
	o, err := applyOptions("Open", opts, "Analyses", "Cached", "In")
	if err != nil {
		return nil, err
	}
	return open([]string{pattern}, o)
}

// MustOpen calls Open and ends the cell on an error.
func MustOpen(pattern string, opts ...Option) *Dataset { return must(Open(pattern, opts...)) }

func open(patterns []string, o options) (*Dataset, error) {
	if o.folder == "" {
		o.folder = DefaultFolder
	}
	folder, err := filesystem.Absolute("", o.folder)
	if err != nil {
		return nil, exit.CreateError(o.folder, err)
	}
	d := &Dataset{cached: o.cached, folder: folder}
	if d.files, err = expand("the forecasts", patterns); err != nil {
		return nil, err
	}
	if len(o.analyses) > 0 {
		if d.analyses, err = expand("Analyses", o.analyses); err != nil {
			return nil, err
		}
	}
	return runJob(func(ctx context.Context, _ job) (*Dataset, error) { return d, d.inspect(ctx) })
}

// expand returns the absolute paths of the files that match patterns, sorted.
func expand(what string, patterns []string) ([]string, error) {
	var paths []string
	for _, p := range patterns {
		abs, err := filesystem.Absolute("", p)
		if err != nil {
			return nil, exit.ReadError(p, err)
		}
		paths = append(paths, abs)
	}
	files, _, err := input.ListFiles(what, paths)
	slices.Sort(files)
	return files, err
}

// inspect reads the inventory of the files. With the option Cached it uses the stored inventory if
// the files are unchanged.
func (d *Dataset) inspect(ctx context.Context) error {
	var memo string
	if d.cached {
		memo = filepath.Join(d.cacheDir(), "datasets", contentKey(d.files...)+".json")
		var known summary
		if text, err := os.ReadFile(memo); err == nil && json.Unmarshal(text, &known) == nil && known.Version == version.String() && known.matches(d.files) {
			d.summary = &known
			return nil
		}
	}
	o := fio.Options{}
	var marks []fingerprint.File // taken before reading, so that later changes are detected
	if d.cached {
		for _, f := range d.files {
			mark, err := fingerprint.Of(f)
			if err != nil {
				return exit.ReadError(f, err)
			}
			marks = append(marks, mark)
		}
		o.Cache = d.indexDir()
		if err := os.MkdirAll(o.Cache, 0o755); err != nil {
			return exit.CreateError(o.Cache, err)
		}
	}
	in, err := fio.Open(ctx, d.files, o)
	if err != nil {
		return err
	}
	defer in.Close()
	d.summary = summarise(in.Catalogue())
	if !d.cached {
		return nil
	}
	d.summary.Marks = marks
	return writeJSON(memo, d.summary)
}

// matches reports whether the files are unchanged since the summary was made.
func (a *summary) matches(files []string) bool {
	for i, f := range files {
		if i >= len(a.Marks) || !isUnchanged(f, a.Marks[i]) {
			return false
		}
	}
	return true
}

func summarise(cat *ensemble.Catalogue) *summary {
	a := &summary{Version: version.String(), Unused: len(cat.Unused)}
	for _, g := range cat.Groups() {
		a.Rows = append(a.Rows, check.GroupRow(g))
		for _, grid := range g.Grids {
			if text := grid.String(); !slices.Contains(a.Grids, text) {
				a.Grids = append(a.Grids, text)
			}
		}
		if _, known := ensemble.VariableNamed(g.Variable); known && g.Product == ensemble.MemberField {
			a.Variables = append(a.Variables, variableSummary{g.Variable, g.Levels})
		}
	}
	fields := ensemble.Catalogue{Entries: cat.Select(func(e ensemble.Entry) bool { return e.Product == ensemble.MemberField })}
	a.Leads, a.Members = fields.Leads(), fields.Members()
	at := map[ensemble.Init]int{}
	for _, init := range cat.Inits() {
		at[init] = len(a.Inits)
		a.Inits = append(a.Inits, initSummary{Init: init})
	}
	for _, e := range cat.Entries {
		s := &a.Inits[at[e.Init]]
		if !slices.Contains(s.Files, e.File) {
			s.Files = append(s.Files, e.File)
		}
	}
	return a
}

// cacheDir returns the folder of stored inventories and checksums.
func (d *Dataset) cacheDir() string { return filepath.Join(d.folder, "notebooks") }

// indexDir returns the folder of GRIB indexes.
func (d *Dataset) indexDir() string { return filepath.Join(d.cacheDir(), "index") }

// Files returns the absolute paths of the forecast files.
func (d *Dataset) Files() []string {
	exitOnError(d.err)
	return slices.Clone(d.files)
}

// Analyses returns the analyses of the dataset as a separate dataset.
//
// Errors: exit 66 if the dataset was opened without analyses.
func (d *Dataset) Analyses() (*Dataset, error) {
	if d.err != nil {
		return nil, d.err
	}
	if d.analyses == nil {
		return nil, &exit.Error{Code: exit.NotYet, What: "the dataset has no analyses", Fix: `open it with ens.Analyses("an/*.nc")`}
	}
	return open(d.analyses, options{cached: d.cached, folder: d.folder})
}

// MustAnalyses calls Analyses and ends the cell on an error.
func (d *Dataset) MustAnalyses() *Dataset { return must(d.Analyses()) }

// Table returns the inventory of the files with one row per variable, as `ensemble inspect` does.
func (d *Dataset) Table() *Table {
	if d.err != nil {
		return &Table{err: d.err}
	}
	t := &Table{Section: answer.Section{Columns: check.GroupColumns, Rows: d.summary.Rows, Title: fmt.Sprintf("%d files", len(d.files))}}
	for _, g := range d.summary.Grids[:min(len(d.summary.Grids), 3)] {
		t.Title += "; grid " + g
	}
	if d.summary.Unused > 0 {
		t.Title += fmt.Sprintf("; %d unused messages: `ensemble inspect` lists the reasons", d.summary.Unused)
	}
	return t
}

// Show adds the table to the cell.
func (d *Dataset) Show() { d.Table().Show() }

// Inits returns the initialisation times of the forecasts in ascending order.
func (d *Dataset) Inits() []ensemble.Init {
	exitOnError(d.err)
	var out []ensemble.Init
	for _, s := range d.summary.Inits {
		out = append(out, s.Init)
	}
	return out
}

// Init is one initialisation time of a dataset.
type Init struct {
	Init    ensemble.Init
	Files   []string // with fields of this initialisation time
	dataset *Dataset
	err     error
}

// Err returns the error of Dataset.Init, or nil.
func (c Init) Err() error { return c.err }

// Init returns an initialisation time. text is "2017-02-26T00Z", "2017022600", RFC 3339, "first"
// or "last".
//
// Errors, stored in the result: 64 for an invalid time, 66 if the files do not contain this time.
func (d *Dataset) Init(text string) Init {
	if d.err != nil {
		return Init{err: d.err}
	}
	inits := d.summary.Inits
	if n := len(inits); n > 0 && text == "first" {
		return Init{inits[0].Init, inits[0].Files, d, nil}
	} else if n > 0 && text == "last" {
		return Init{inits[n-1].Init, inits[n-1].Files, d, nil}
	}
	date, err := config.ParseDate(text)
	if err != nil || date.WholeDay {
		return Init{err: &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid initialisation time %q", text), At: "Init", Fix: `write it as "2017-02-26T00Z" or "2017022600"`}}
	}
	for _, s := range inits {
		if s.Init.Equal(date.Time) {
			return Init{s.Init, s.Files, d, nil}
		}
	}
	e := &exit.Error{Code: exit.NotYet, What: "initialisation time not in the files", At: ensemble.InitAt(date.Time).String(), Fix: "choose one of ds.Inits()"}
	if n := len(inits); n > 0 {
		e.Why = fmt.Sprintf("the files have %d initialisation times from %s to %s", n, inits[0].Init, inits[n-1].Init)
		e.Fix = fmt.Sprintf("the nearest is %s; ds.Inits() has all", closestTime(date.Time, inits, func(s initSummary) time.Time { return s.Init.Time }).Init)
	}
	return Init{err: e}
}

// Demo generates the synthetic data of `ensemble demo`: weekly ensemble forecasts with ten members
// over four years, and analyses. With Small the data cover one year. Existing data are reused.
// Accepts In and Small.
//
// Errors: 73 and 74 for the folder.
func Demo(opts ...Option) (*Dataset, error) {
	o, err := applyOptions("Demo", opts, "In", "Small")
	if err != nil {
		return nil, err
	}
	folder := o.folder
	if folder == "" {
		folder = DefaultFolder
	}
	do := rundemo.Options{Root: folder, DataOnly: true, Version: version.String()}
	if o.small {
		do.Root = filepath.Join(folder, "small")
		do.Data.Inits = smallDemoInits
	}
	dir, err := makeDemo(do)
	if err != nil {
		return nil, err
	}
	return open([]string{filepath.Join(dir, "demo_fc_*.grib2")}, options{cached: true, folder: folder, analyses: []string{filepath.Join(dir, "demo_an_*.nc")}})
}

// smallDemoInits is the number of initialisation times of Demo with Small.
const smallDemoInits = 52

// MustDemo calls Demo and ends the cell on an error.
func MustDemo(opts ...Option) *Dataset { return must(Demo(opts...)) }

func makeDemo(o rundemo.Options) (dir string, err error) {
	return runJob(func(ctx context.Context, j job) (string, error) {
		o.Progress, o.Warn = j.progress, j.warn
		r, err := rundemo.Run(ctx, o)
		if err != nil {
			return "", err
		}
		return r.DataDir, nil
	})
}
