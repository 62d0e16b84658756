package compress

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/quantise"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// QuantiseOptions are the inputs of [Quantise].
type QuantiseOptions struct {
	Config    *config.QuantiseConfig
	RunDir    string // output directory
	Overwrite bool
	Threads   int // 0: as in the training
	Version   string
	Timings   setup.Timings // measured times of kernels: without them no kernel skips zero blocks
	Progress  *progress.Reporter
	Warn      func(string)
}

// QuantiseResult compares int8 predictions with those in other precisions.
type QuantiseResult struct {
	RunDir   string   `json:"run_dir"`
	Outputs  []string `json:"outputs"`
	Warnings []string `json:"warnings"`
	// CalibrationInits lists the training samples used for calibration.
	CalibrationInits []string `json:"calibration_inits"`
	Method           string   `json:"calibration_method"` // method of calibration, key of quantise.yaml
	// Layers run in int8; the other layers are listed with the reason.
	Layers       []string          `json:"layers"`
	NotQuantised map[string]string `json:"not_quantised"` // reason by layer
	Ladder       []Rung            `json:"ladder"`        // from f32 to the fastest
	Table        *EfficiencyTable  `json:"table"`         // one row for each rung of the ladder
}

// quantisedFile is the name of the result in a run directory.
const quantisedFile = "quantised.json"

// Quantise quantises the networks of a finished training to int8. The scales come from activations on
// training samples. It writes a run directory and compares precisions on the validation samples (Rung).
//
// Reads: the run directory to quantise, and the data of its training.
// Writes: in RunDir model/ with the scales in model.json, quantised.json and manifest.json.
// Errors: exit 64 for a run that is not a training, is quantised already, has stages, or has no layer to
// quantise; 66 if it is not finished; those of reading its data; 73 and 74 for the output.
func Quantise(ctx context.Context, o QuantiseOptions) (result *QuantiseResult, err error) {
	from := string(o.Config.RunDir)
	run, err := beginDerived(derivation{from: from, to: o.RunDir, overwrite: o.Overwrite, threads: o.Threads, version: o.Version, config: o.Config.Hash()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.dir.Close()) }()
	no := func(what, why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: from, Why: why, Fix: fix}
	}
	m, err := model.Load(filepath.Join(from, "model"), false)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if m.Spec.Staged() {
		return nil, no("a model of three stages cannot be quantised", "its networks have no separate scales", "train with model.method: joint")
	}
	if m.Sharing != nil {
		return nil, no("layers that share parameters cannot be quantised", "their filters are computed from shared parameters in every run", "train without model.share")
	}
	d, err := run.readData(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	options := network.Options(run.training.Train.Train.Threads, "")
	r := &QuantiseResult{RunDir: o.RunDir, Method: o.Config.Calibration.Method, Warnings: d.Warnings}
	if !cpu.HasFastInt8() {
		r.Warnings = append(r.Warnings, setup.SlowInt8Warning)
	}
	if m.Int8, err = r.calibrate(ctx, m, d.Train, o, options); err != nil {
		return nil, err
	}
	if err := run.copyFiles(m); err != nil {
		return nil, err
	}
	if o.Config.Weights == "int8" {
		if err := run.dir.Publish(func() error { return roundWeights(m, run.dir) }); err != nil {
			return nil, err
		}
	}
	base := setup.Inference{Threads: run.training.Train.Train.Threads, Timings: o.Timings}.Options()
	err = r.compare(ctx, d, from, base)
	if base.Timings != nil {
		o.Timings.Save(base.Timings)
	}
	if err != nil {
		return nil, err
	}
	if err := run.dir.Publish(func() error { return jsonfile.Write(run.dir.File(quantisedFile), r) }); err != nil {
		return nil, err
	}
	r.Outputs, err = run.finish(quantisedFile)
	return r, err
}

// roundWeights rounds the filters that run in int8 to eight bits in the weight files of a run directory.
// Other weights stay as they are.
func roundWeights(m *model.Model, dir *rundir.Dir) error {
	for i, w := range m.Networks {
		path := dir.File(filepath.Join("model", fmt.Sprintf(model.WeightsFormat, i)))
		if err := ckpt.WriteRounded(path, w, func(name string) bool { return m.Int8[name] != nil }); err != nil {
			return err
		}
	}
	return nil
}

// calibrate determines the scales on training samples.
func (r *QuantiseResult) calibrate(ctx context.Context, m *model.Model, train samples.Examples, o QuantiseOptions, options engine.Options) (map[string]*op.Int8Scales, error) {
	job := o.Config.Calibration
	order, err := calibrationOrder(train, job.Inits)
	if err != nil {
		return nil, err
	}
	c := quantise.New(quantise.Options{Method: quantise.Method(job.Method), ClipFraction: job.ClipFraction, IncludeInput: o.Config.InputLayers, Exclude: o.Config.Keep})
	if m.Int8 != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the networks are quantised already", At: string(o.Config.RunDir), Fix: "quantise the original training"}
	}
	look := c.ObserveRanges
	options.Passes = c.Passes()
	options.Extension = engine.FinishFunc(func(err error) error {
		if err == nil {
			look(m.Network.Plan)
		}
		return err
	})
	defer m.Close()
	task := o.Progress.Start("calibrate", int64(2*len(order)))
	defer task.Done()
	for pass, f := range []func(*engine.Plan){c.ObserveRanges, c.ObservePoints} {
		look = f
		err := predictEach(ctx, m, options, train, order, func(i int, fc *ensemble.Forecast) {
			if pass == 0 {
				r.CalibrationInits = append(r.CalibrationInits, fc.Init.String())
			}
			task.Set(int64(pass*len(order)+i+1), "")
		})
		if errors.Is(err, quantise.ErrLayer) {
			err = &exit.Error{Code: exit.Usage, What: "keep lists a layer that the network does not have", Why: err.Error(), Fix: "give names of layers from `ensemble engine explain`", Err: err}
		}
		if err != nil {
			return nil, err
		}
	}
	if r.Layers, r.NotQuantised = c.Filters(), c.Skipped; len(r.Layers) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "no layer can be quantised", At: string(o.Config.RunDir), Why: fmt.Sprint("convolutions cannot run in int8: ", c.Skipped),
			Fix: "quantise a network with 3×3 convolutions and ReLU behind its first layer"}
	}
	return c.Scales()
}
