package predict

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// forecaster is the model, its network and its fallback. No input changes it.
type forecaster struct {
	policy         config.Policy
	ranks          *team.Team // that predict one init together; nil for one rank alone
	manifest       *rundir.Manifest
	model          *model.Model
	opening        chan struct{} // closed when the network is open, or cannot be; nil where ranks open it together
	openErr        error
	modelChecksum  func() (string, error) // waits for it
	verifyChecksum func() error           // compares it with that of the training; nil until the model is loaded
	engine         engine.Options
	warnings       []string               // warnings about model and machine, whatever the input
	fallback       string                 // what forecasts where the policy falls back; "" for nothing
	alarms         func() (string, error) // what the verification's alarms say of the model
}

// load makes the model and the decoders ready. close is called in any case.
func (p *prediction) load() (err error) {
	var promoted string // the checksum that the model must have
	if p.options.RunDir, promoted, err = promote.ResolveRunDir(p.options.RunDir); err != nil {
		return err
	}
	f := p.forecaster
	if f.manifest, err = trained.ReadFinished(p.options.RunDir); err != nil {
		return err
	}
	if p.pool, err = decode.NewPool(decode.Options{}); err != nil {
		return err
	}
	p.pool.Start(1) // which writes
	if err = f.load(p.options.RunDir, promoted); err != nil {
		return err
	}
	if p.policy, err = newInputPolicy(f.model, p.options.Policy); err != nil {
		return err
	}
	p.policy.canWait = !p.options.Deadline.IsZero() || p.options.Policy.Members.Wait > 0
	if err = f.distribute(); err != nil {
		return err
	}
	f.open(p.options.engineOptions())
	return nil
}

// engineOptions are those of a prediction's plan; the caller saves its timings.
func (o Options) engineOptions() engine.Options {
	return setup.Inference{Threads: o.Threads, Device: o.Device, Timings: o.Timings, Precision: o.Precision, Memory: o.MemoryBytes, Workspace: o.WorkspaceBytes}.Options()
}

// load reads the model of a run directory, and begins to compute its checksum, which is promoted unless that is "".
func (f *forecaster) load(runDir, promoted string) (err error) {
	modelDir := filepath.Join(runDir, "model")
	f.modelChecksum = concurrently(func() (string, error) {
		sum, err := trained.ModelChecksum(modelDir)
		if err == nil && promoted != "" && sum != promoted {
			err = promote.ChangedModelError(filepath.Dir(filepath.Dir(runDir)), filepath.Base(runDir), sum)
		}
		return sum, err
	})
	f.verifyChecksum = sync.OnceValue(func() error {
		sum, err := f.modelChecksum()
		if err != nil {
			return err
		}
		return promote.CheckUnmodified(modelDir, sum, f.manifest)
	})
	if err = f.read(modelDir); err != nil {
		return err
	}
	f.readAlarms()
	if err = f.chooseFallback(); err != nil {
		return err
	}
	if err = f.model.SelectLeads(f.policy.Leads); err != nil {
		return err
	}
	if f.model.Int8 != nil && !cpu.HasFastInt8() {
		f.warnings = append(f.warnings, setup.SlowInt8Warning)
	}
	return nil
}

// concurrently begins to compute something, and gives the function that waits for it.
func concurrently[T any](f func() (T, error)) func() (T, error) {
	var x T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		x, err = f()
	}()
	return func() (T, error) {
		<-done
		return x, err
	}
}

// read reads the model, and what it knows of the training's input.
//
// Errors: those of a model that cannot be read, unless the policy goes on without its network; exit 64 for a policy that refuses
// drift which the model cannot notice.
func (f *forecaster) read(dir string) (err error) {
	if f.model, err = model.Load(dir, f.ranks == nil); err != nil {
		if !f.recoverable(err) {
			return err
		}
		var broken error
		if f.model, _, broken = model.LoadDescription(dir); broken != nil {
			return err
		}
		f.openErr = err
	}
	if f.model.Drift, err = f.model.LoadDrift(dir); err != nil {
		return err
	}
	if f.policy.Drift.OnDrift == ActionRefuse && f.model.Drift == nil {
		return &exit.Error{Code: exit.Usage, What: "drift.on_drift is refuse, and the model does not know the input of its training", At: dir,
			Why: "it was trained on too few starts", Fix: "train again, or leave drift.on_drift out"}
	}
	if f.policy.Drift.OnDrift == ActionFallBack && f.model.Drift == nil {
		f.warnings = append(f.warnings, "drift.on_drift is fall_back, and the model does not know the input of its training: nothing is noticed; train again")
	}
	return nil
}

// readAlarms has the file of alarms be read before the next init that is predicted, and not before each that follows.
func (f *forecaster) readAlarms() {
	f.alarms = sync.OnceValues(func() (string, error) {
		sum, err := f.modelChecksum()
		if err != nil || f.policy.Alarms.File == "" {
			return "", err
		}
		return promote.AlarmsOf(string(f.policy.Alarms.File), sum)
	})
}

// chooseFallback finds what forecasts where the policy falls back.
//
// Errors: exit 64 if the model has nothing to fall back on.
func (f *forecaster) chooseFallback() error {
	if !f.policy.UsesFallback() {
		return nil
	}
	if f.fallback = f.model.SelectFallback(f.policy.Fallback); f.fallback == "" {
		return &exit.Error{Code: exit.Usage, What: "the model has nothing to fall back on", At: "fall_back", Why: "it has none of " + strings.Join(f.policy.Fallback, ", ") + " for all its targets, in the form of its products",
			Fix: "name baselines that it was trained with, or raw; or set warn or refuse in place of fall_back"}
	}
	return nil
}

// distribute cuts the model for ranks that predict together.
func (f *forecaster) distribute() error {
	f.model.Ranks = f.ranks
	if f.ranks == nil {
		return nil
	}
	if err := setup.AssignSlabs(f.ranks, f.model.Spec, f.model.Task, f.model.Grid, 1); err != nil {
		return err
	}
	f.model.Local = f.model.Task.ForRank(f.ranks.Shard(), f.ranks.Comm.Rank())
	return nil
}

// open begins to open the network of one rank alone: messages of ranks that predict together have an order.
func (f *forecaster) open(o engine.Options) {
	f.engine = o
	if f.ranks != nil || f.openErr != nil {
		return
	}
	f.opening = make(chan struct{})
	go func() {
		defer close(f.opening)
		f.openErr = f.model.Open(f.engine)
	}()
}

// agreeOnNetwork lets ranks that predict together all do without the network if one of them cannot read it.
func (f *forecaster) agreeOnNetwork() error {
	if f.ranks == nil {
		return nil
	}
	_, err := team.AllGatherOutcomes(f.ranks, team.Outcome[bool]{}, f.openErr)
	if err != nil && !f.recoverable(err) {
		return err
	}
	f.openErr = err
	return nil
}

// waitOpen waits for the network, which is opened during other work, as the checksum of its files is made.
func (f *forecaster) waitOpen() error {
	if f.opening != nil {
		<-f.opening
	}
	if f.openErr != nil || f.verifyChecksum == nil {
		return f.openErr
	}
	return f.verifyChecksum()
}

// recoverable says whether the policy goes on without the network after an error of it.
func (f *forecaster) recoverable(err error) bool {
	return f.policy.OnFailure == ActionFallBack && slices.Contains([]exit.Code{exit.Bug, exit.BadData, exit.NoDevice, exit.IO}, exit.CodeOf(err)) &&
		!errors.Is(err, context.Canceled)
}

func (f *forecaster) close() {
	if f.model != nil {
		f.waitOpen() // no longer used while it is closed
		f.model.Close()
	}
}

// nameMemoryFlags says by which flags a bound of the memory that is too small was set.
func nameMemoryFlags(err error) error {
	return setup.NameMemoryLimit(err, setup.FlagMemory, setup.FlagWorkspace)
}
