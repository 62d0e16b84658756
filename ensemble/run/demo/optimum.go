package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// OptimumOptions are the inputs of [Optimum].
type OptimumOptions struct {
	Data     demo.Optimum
	Version  string
	Progress *progress.Reporter
	Notice   func(string) // receives the cost before the work begins; nil: nothing is shown
}

// optimumRecord names the file that lists the years of a benchmark that are complete.
const optimumRecord = "optimum.json"

// optimumState is the content of that file. Paths are relative to its folder.
type optimumState struct {
	Config  demo.Optimum
	Version string
	Years   []demo.OptimumYear
}

// Optimum generates the benchmark with a known optimum into a folder. Years that are complete there are kept, with the
// files of another benchmark or version they are replaced.
//
// Errors: those of demo.WriteOptimum; exit 64 for invalid settings; 73 and 74.
func Optimum(ctx context.Context, o OptimumOptions, dir string) error {
	resolved, err := o.Data.WithDefaults()
	if err != nil {
		return &exit.Error{Code: exit.Usage, What: "invalid settings of the benchmark", At: "data.optimum", Why: err.Error(), Fix: "change them"}
	}
	path := filepath.Join(dir, optimumRecord)
	state, err := openOptimum(path, optimumState{Config: resolved, Version: o.Version})
	if err != nil {
		return err
	}
	years := slices.DeleteFunc(resolved.YearNumbers(), func(y int) bool {
		return slices.ContainsFunc(state.Years, func(s demo.OptimumYear) bool { return s.Year == y })
	})
	if len(years) == 0 {
		return nil
	}
	if err := announce(o, resolved, years); err != nil {
		return err
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	var stage string
	var task *progress.Task
	defer func() { task.Done() }()
	resolved.Progress = func(name string, done, all int) {
		if name != stage {
			task.Done()
			stage, task = name, o.Progress.Start(name, int64(all))
		}
		task.Set(int64(done), "")
	}
	return demo.WriteOptimum(ctx, resolved, dir, years, demo.Encoder{Pool: pool}, func(y demo.OptimumYear) error {
		for _, list := range [][]string{y.Forecasts, y.Oracle} {
			for i := range list {
				list[i] = filepath.Base(list[i])
			}
		}
		y.Analyses = filepath.Base(y.Analyses)
		state.Years = append(state.Years, y)
		return jsonfile.Write(path, state)
	})
}

// openOptimum reads the record of a folder and keeps the years whose files exist. The files of other settings or of
// another version are removed.
//
// Errors: 73 and 74.
func openOptimum(path string, want optimumState) (*optimumState, error) {
	want.Config.Threads = 0 // does not affect the data
	dir := filepath.Dir(path)
	if err := filesystem.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	text, err := filesystem.ReadFile(path)
	var have optimumState
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &want, nil
	case err != nil:
		return nil, exit.ReadError(path, err)
	case json.Unmarshal(text, &have) != nil:
		return &want, nil
	}
	a, errA := json.Marshal(have.Config)
	b, errB := json.Marshal(want.Config)
	same := errA == nil && errB == nil && string(a) == string(b) && have.Version == want.Version
	for _, y := range have.Years {
		complete := true
		for _, name := range slices.Concat(y.Forecasts, y.Oracle, []string{y.Analyses}) {
			if !same {
				if err := filesystem.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, exit.CreateError(filepath.Join(dir, name), err)
				}
				continue
			}
			_, err := filesystem.Stat(filepath.Join(dir, name))
			complete = complete && err == nil
		}
		if same && complete {
			want.Years = append(want.Years, y)
		}
	}
	return &want, nil
}

// announce shows the cost of some years.
func announce(o OptimumOptions, resolved demo.Optimum, years []int) error {
	if o.Notice == nil {
		return nil
	}
	c, err := resolved.Cost(years)
	if err != nil {
		return err
	}
	o.Notice(fmt.Sprintf("generating %s (%s, %d with an oracle of %d members): about %s of processor time, which %s share, and %s",
		humanise.Count(len(years), "year"), humanise.Count(c.Cases, "initialisation"), c.Oracles, resolved.OracleMembers, hours(c.Processor.Hours()), humanise.Count(resolved.Threads, "thread"), fmt.Sprintf("%.2g GB", float64(c.Bytes)/1e9)))
	return nil
}

// hours formats a number of hours with two digits.
func hours(h float64) string { return strconv.FormatFloat(h, 'g', 2, 64) + " hours" }
