package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Options are the inputs of [Run]. The zero value is the default.
type Options struct {
	Root     string      // folder of all output; default "runs"
	Data     demo.Config // what to generate
	Formats  demo.Format // file formats of the ensembles; 0: GRIB2
	DataOnly bool        // stop after generating the data
	Set      []string    // overrides of the training's configuration, as after --set
	Threads  int         // 0: all cores
	Command  string      // for the history attribute of the products
	Version  string
	Stop     func() error // as train.Options.Stop
	Progress *progress.Reporter
	Warn     func(string)
}

// Result lists what the demonstration made.
type Result struct {
	DataDir, RunDir, ProductDir string
	Report                      string // page to open; empty if DataOnly
	Config                      string // configuration of the training
	Scores                      *score.Result
}

// Sections returns scores and paths as text.
func (r *Result) Sections() answer.Sections {
	var all answer.Sections
	if r.Scores != nil {
		all = r.Scores.Brief("all scores: the report, `ensemble verify --all`")
	}
	rows := [][2]string{{"data", r.DataDir}}
	if r.Report != "" {
		rows = append(rows, [][2]string{{"run", r.RunDir}, {"products", r.ProductDir}, {"report", r.Report + "   (open it in a browser)"}}...)
	}
	return append(all, answer.FactsSection(rows...))
}

//go:embed demo.yaml
var demoConfig []byte

// dataRecord is written last into the folder of generated data.
const dataRecord = "demo.json"

// Run runs the workflow on synthetic data. A chaotic atmosphere is simulated as an imperfect-twin experiment
// and written to files, networks are trained on the first years, and the last year is predicted, published,
// verified and reported. Parts that are finished are not repeated.
//
// Writes: below Root the data, the run directory, products and the report.
// Errors: those of the jobs; exit 75 after Options.Stop.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Root == "" {
		o.Root = "runs"
	}
	if o.Formats == 0 {
		o.Formats = demo.GRIB2
	}
	res := &Result{DataDir: filepath.Join(o.Root, "demo-data"), RunDir: filepath.Join(o.Root, "demo"), ProductDir: filepath.Join(o.Root, "demo-products")}
	res.Config = filepath.Join(res.DataDir, "train.yaml")
	files, err := Data(ctx, o, res.DataDir)
	if err != nil || o.DataOnly {
		return res, err
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{res.Config}, Set: o.Set})
	if err != nil {
		return nil, err
	}
	if o.Threads > 0 {
		c.Train.Train.Threads = o.Threads
	}
	training := train.Options{Config: c, RunDir: res.RunDir, Resume: "auto", Version: o.Version, Stop: o.Stop, Progress: o.Progress, Warn: o.Warn}
	if _, err := train.Run(ctx, training); exit.CodeOf(err) == exit.CannotWrite || exit.CodeOf(err) == exit.Usage {
		// The existing run has other data or settings: start again.
		training.Resume, training.Overwrite = "", true
		_, err = train.Run(ctx, training)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	test := testFiles(files, c.Data.Split.Test.Period())
	if _, err := predict.Run(ctx, predict.Options{RunDir: res.RunDir, Input: test, Out: res.ProductDir, Formats: []product.Format{product.NetCDF},
		Overwrite: product.OverwriteAlways, Threads: o.Threads, Command: o.Command, Version: o.Version, Progress: o.Progress}); err != nil {
		return nil, err
	}
	if res.Scores, err = trained.ReadScores(res.RunDir); err != nil {
		return nil, err
	}
	defer o.Progress.Start("write report", 0).Done()
	res.Report, err = reports.Write(reports.Options{Dir: res.RunDir})
	return res, err
}

// Data generates the data set, or returns the existing one.
//
// Errors: exit 65 for a damaged record of existing data; 73 and 74.
func Data(ctx context.Context, o Options, dir string) (*demo.Files, error) {
	type record struct {
		Config  demo.Config
		Formats demo.Format
		Version string
		Files   *demo.Files
	}
	path := filepath.Join(dir, dataRecord)
	want := record{Config: o.Data, Formats: o.Formats, Version: o.Version}
	want.Config.Threads = 0 // does not affect the data
	if text, err := filesystem.ReadFile(path); err == nil {
		var have record
		if json.Unmarshal(text, &have) == nil && sameConfig(have.Config, want.Config) && have.Formats == want.Formats && have.Version == want.Version {
			return have.Files, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, &exit.Error{Code: exit.IO, What: "cannot read the record of the data", At: path, Why: err.Error(), Fix: "remove the folder " + dir, Err: err}
	}
	if err := errors.Join(filesystem.RemoveAll(path), filesystem.MkdirAll(dir, 0o755)); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	o.Data.Threads = o.Threads
	resolved, err := o.Data.WithDefaults()
	if err != nil {
		return nil, err
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	task := o.Progress.Start("generate", int64(resolved.Inits))
	defer task.Done()
	files, err := demo.Write(ctx, resolved, dir, o.Formats, demo.Encoder{Pool: pool}, func(done, _ int) { task.Set(int64(done), "") })
	if err != nil {
		return nil, err
	}
	if err := exit.CreateError(dir, atomicfile.WriteFile(filepath.Join(dir, "train.yaml"), demoConfig)); err != nil {
		return nil, err
	}
	want.Files = files
	return files, jsonfile.Write(path, want)
}

// sameConfig compares configurations by their JSON form.
func sameConfig(a, b demo.Config) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// testFiles lists the ensemble files with initialisations in a period.
func testFiles(f *demo.Files, p ensemble.Period) []string {
	files := f.GRIB2
	if len(files) == 0 {
		files = f.NetCDF
	}
	var out []string
	for _, path := range files {
		var stamp string
		base := filepath.Base(path)
		if n := len("demo_fc_"); len(base) > n+10 {
			stamp = base[n : n+10]
		}
		if d, err := config.ParseDate(stamp); err == nil && p.Contains(d.Time) {
			out = append(out, path)
		}
	}
	return out
}
