package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/protocol"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fetch"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// DataVariable is the environment variable of the directory whose subdirectories hold the data of
// experiments, by name.
const DataVariable = "ENSEMBLE_DATA"

// dataset is the data of an experiment on this machine.
type dataset struct {
	folder              string
	forecasts, analyses []string // patterns relative to folder
	oracle              []string // the same; nil: none
	files               []string // matching files
	record              record.Data
}

// prepareData generates, downloads or finds the data of an experiment, and checks their checksums.
//
// Errors: exit 66 with all missing files, 65 for wrong checksums.
func (o *Options) prepareData(ctx context.Context) (*dataset, error) {
	c, began := o.Experiment, time.Now()
	d := &dataset{forecasts: c.Data.Forecasts, analyses: c.Data.Analyses, oracle: c.Data.Oracle, record: record.Data{From: c.Data.Source}}
	if o.Data != "" && c.Data.Source != experimentfile.FilesSource && o.Warn != nil {
		o.Warn(fmt.Sprintf("the data of %s are generated; those in %s are not used", c.Name, o.Data))
	}
	var err error
	switch c.Data.Source {
	case experimentfile.DemoSource:
		d.folder = o.generatedDataDir()
		made := rundemo.Options{Formats: demo.GRIB2, Threads: o.Threads, Version: o.Version, Progress: o.Progress,
			Data: demo.Config{Inits: c.Data.Demo.Inits, Interval: c.Data.Demo.Every, Members: c.Data.Demo.Members, Seed: uint64(c.Data.Demo.Seed)}}
		_, err = rundemo.Data(ctx, made, d.folder)
	case experimentfile.OptimumSource:
		d.folder = o.generatedDataDir()
		err = rundemo.Optimum(ctx, o.optimum(), d.folder)
	case experimentfile.ProtocolSource:
		d.folder = o.generatedDataDir()
		err = o.synthesize(ctx, d.folder)
	default:
		d.folder, err = o.dataDir()
	}
	if err != nil {
		return nil, err
	}
	if err := o.fetchMissing(ctx, d.folder); err != nil {
		return nil, err
	}
	patterns := slices.Concat(d.forecasts, d.analyses, c.Data.Auxiliary, d.oracle)
	var stores []string
	for _, v := range c.Variants {
		patterns = append(patterns, v.Auxiliary...)
		if dir := c.StoreOf(v); dir != "" && !slices.Contains(stores, dir) {
			stores = append(stores, dir)
		}
	}
	for _, p := range patterns {
		found, _, err := input.ListFiles("the experiment "+c.Name, []string{filepath.Join(d.folder, p)})
		var absent *exit.Error
		if errors.As(err, &absent) && absent.Code == exit.NotYet {
			absent.Fix = o.dataFix()
		}
		if err != nil {
			return nil, err
		}
		d.files = append(d.files, found...)
	}
	for _, dir := range stores {
		found, err := o.storeFiles(filepath.Join(d.folder, dir))
		if err != nil {
			return nil, err
		}
		d.files = append(d.files, found...)
	}
	slices.Sort(d.files)
	d.files = slices.Compact(d.files)
	if err := o.checkDigests(d); err != nil {
		return nil, err
	}
	d.record.Seconds = time.Since(began).Seconds()
	return d, nil
}

// storeFiles lists the files of a sample store.
//
// Errors: exit 66 if there is none.
func (o *Options) storeFiles(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exit.Error{Code: exit.NotYet, What: "the sample store of " + o.Experiment.Name + " is missing", At: dir, Fix: o.dataFix()}
	}
	return files, exit.ReadError(dir, err)
}

// generatedDataDir is the directory of generated data; its name depends on their settings.
func (o *Options) generatedDataDir() string {
	c := o.Experiment.Data
	return filepath.Join(o.Dir, "data", record.Digest(fmt.Sprintf("%s %+v %+v %+v %s", c.Source, c.Demo, c.Optimum, c.Protocol, o.Version))[:12])
}

// optimum returns the options of the benchmark with a known optimum.
func (o *Options) optimum() rundemo.OptimumOptions {
	c := o.Experiment.Data.Optimum
	return rundemo.OptimumOptions{Version: o.Version, Progress: o.Progress, Notice: o.Warn, Data: demo.Optimum{Seed: uint64(c.Seed), Years: c.Years, TestYears: c.TestYears,
		Interval: c.Every, Members: c.Members, OracleMembers: c.OracleMembers, ReforecastMembers: c.Reforecasts, Threads: o.Threads}}
}

// synthesize writes synthetic data in the layout of a protocol, unless they are complete.
func (o *Options) synthesize(ctx context.Context, dir string) error {
	m := o.Experiment.Data.Protocol
	p, err := protocolfile.Load(m.Name)
	if err != nil {
		return err
	}
	if p, err = p.Subset(m.First, m.Last, m.Dates, m.Rows, m.Columns, m.Members); err != nil {
		return err
	}
	text, err := filesystem.ReadFile(filepath.Join(dir, protocol.SyntheticRecord))
	var made struct{ Complete bool }
	if err == nil && json.Unmarshal(text, &made) == nil && made.Complete {
		return nil
	}
	_, err = protocol.Synthesize(ctx, protocol.SynthesizeOptions{Protocol: p, Out: dir, Seed: uint64(m.Seed), Threads: o.Threads, Version: o.Version, Progress: o.Progress})
	return err
}

// dataDir is the directory of the files of an experiment.
func (o *Options) dataDir() (string, error) {
	c := o.Experiment
	if o.Data != "" {
		return o.Data, nil
	}
	places := []string{string(c.Data.Folder)}
	if root := os.Getenv(DataVariable); root != "" {
		places = []string{filepath.Join(root, c.Name), string(c.Data.Folder)}
	}
	for _, p := range places {
		if st, err := filesystem.Stat(p); p != "" && err == nil && st.IsDir() {
			return p, nil
		}
	}
	if o.Fetch {
		return filepath.Join(o.Dir, "data"), nil
	}
	return "", &exit.Error{Code: exit.NotYet, What: "the data of " + c.Name + " are missing", At: strings.Join(slices.DeleteFunc(places, func(p string) bool { return p == "" }), ", "),
		Why: humanise.Count(len(c.Data.Files), "file") + " listed with checksums", Fix: o.dataFix()}
}

// dataFix is the fix for missing data.
func (o *Options) dataFix() string {
	fix := "give their directory with --data, or set " + DataVariable + " to a directory with the subdirectory " + o.Experiment.Name
	switch addressed := slices.ContainsFunc(o.Experiment.Data.Files, func(f experimentfile.DataFile) bool { return f.URL != "" }); {
	case o.Fetch: // --fetch cannot download them
		fix += "; --fetch needs their URLs in " + experimentfile.FileName
	case addressed:
		fix += ", or download them with --fetch"
	}
	return fix
}

// fetchMissing checks that all files exist, and with --fetch downloads missing ones.
//
// Errors: exit 66 with all missing files; those of fetch.File.
func (o *Options) fetchMissing(ctx context.Context, folder string) error {
	var absent []experimentfile.DataFile
	for _, f := range o.Experiment.Data.Files {
		if _, err := filesystem.Stat(filepath.Join(folder, f.Path)); errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, f)
		}
	}
	var lost []string
	for _, f := range absent {
		if !o.Fetch || f.URL == "" {
			lost = append(lost, f.Path)
			continue
		}
		if o.Warn != nil {
			o.Warn("downloading " + f.URL)
		}
		path := filepath.Join(folder, f.Path)
		if err := filesystem.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return exit.CreateError(path, err)
		}
		if err := fetch.File(ctx, o.client, f.URL, path, f.SHA256); err != nil {
			return err
		}
	}
	if lost == nil {
		return nil
	}
	return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%s of %d missing", humanise.Count(len(lost), "file"), len(o.Experiment.Data.Files)), At: folder,
		Why: humanise.List(lost), Fix: o.dataFix()}
}

// checkDigests checks all checksums and reports all faults together.
func (o *Options) checkDigests(d *dataset) error {
	task := o.Progress.Start("check data", int64(len(d.files)))
	defer task.Done()
	listedAs := map[string]string{}
	for _, f := range o.Experiment.Data.Files {
		listedAs[filepath.Clean(f.Path)] = f.SHA256
	}
	var faults []*exit.Error
	d.record.Files = nil
	for i, path := range d.files {
		f, err := manifest.SumFile(path)
		if err != nil {
			return exit.ReadError(path, err)
		}
		if f.Path, err = filepath.Rel(d.folder, path); err != nil {
			return err
		}
		f.Path = filepath.ToSlash(f.Path)
		want, known := listedAs[filepath.FromSlash(f.Path)]
		switch {
		case !known && len(listedAs) > 0:
			faults = append(faults, &exit.Error{Code: exit.BadData, What: "file not listed in the experiment", At: path, Why: "a pattern matches it, but " + experimentfile.FileName + " has no checksum of it",
				Fix: "move it away, or list it with its checksum"})
		case known && want != f.SHA256:
			faults = append(faults, &exit.Error{Code: exit.BadData, What: "wrong checksum", At: path, Why: "SHA-256 " + f.SHA256 + ", want " + want,
				Fix: "download the file again"})
		}
		d.record.Files = append(d.record.Files, f)
		task.Set(int64(i+1), "")
	}
	if faults == nil {
		return nil
	}
	first := *faults[0]
	first.More = faults[1:]
	return &first
}

// httpClient follows redirects to https URLs only.
var httpClient = &http.Client{CheckRedirect: fetch.OnlyHTTPS}
