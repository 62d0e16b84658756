package predict

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// forecaster is the model with its network and its fallback. It does not depend on the input.
type forecaster struct {
	policy         config.Policy
	ranks          *team.Team       // ranks that predict one initialisation together; nil for a single rank
	manifest       *rundir.Manifest // manifest of the training
	model          *model.Model
	opening        chan struct{}          // closed when the network is open or failed to open; nil if several ranks open it together
	openErr        error                  // why the network is not open
	modelChecksum  func() (string, error) // waits for the checksum of the model files
	verifyChecksum func() error           // compares the checksum with that of the training; nil until the model is loaded
	engine         engine.Options
	warnings       []string               // warnings about model and machine
	fallback       string                 // name of the fallback forecast; "" for none
	alarms         func() (string, error) // text of the alarms of rolling verification; "" for none
}

// load loads the model and starts the decoders. The caller calls close in any case.
func (p *prediction) load() (err error) {
	var promoted string // checksum of the promoted model
	if p.options.RunDir, promoted, err = promote.ResolveRunDir(p.options.RunDir); err != nil {
		return err
	}
	f := p.forecaster
	if rundir.IsReplaced(p.options.RunDir) {
		f.warnings = append(f.warnings, "the run is read from "+p.options.RunDir+": the training that replaces it has no result yet")
	}
	if f.manifest, err = trained.ReadFinished(p.options.RunDir); err != nil {
		return err
	}
	if err = product.RefuseLink(filepath.Join(p.options.Out, trained.ReferenceDir)); err != nil {
		return err
	}
	if p.pool, err = decode.NewPool(decode.Options{Records: p.options.Records}); err != nil {
		return err
	}
	if err = f.load(p.options.RunDir, promoted); err != nil {
		return err
	}
	if p.policy, err = newInputPolicy(f.model, p.options.Policy); err != nil {
		return err
	}
	if c := p.options.Publish.Coupling; c.Method != config.SchaakeCoupling {
		if err = f.model.DrawMembers(c.Count); err != nil {
			return err
		}
	}
	p.policy.canWait = !p.options.Deadline.IsZero() || p.options.Policy.Members.Wait > 0
	if err = f.distribute(); err != nil {
		return err
	}
	f.open(p.options.engineOptions())
	return nil
}

// engineOptions returns the engine options of predictions; the caller saves the timings.
func (o Options) engineOptions() engine.Options {
	return setup.Inference{Threads: o.Threads, Device: o.Device, Timings: o.Timings, Precision: o.Precision, Memory: o.MemoryBytes, Workspace: o.WorkspaceBytes}.Options()
}

// load reads the model of a run directory and starts to compute its checksum. promoted is the checksum of a
// promoted model; "" for none.
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
	return f.model.SelectLeads(f.policy.Leads)
}

// slowInt8 returns the warning about int8 predictions on this processor; hasFastInt8 is cpu.HasFastInt8. A GPU has kernels of
// its own: whether there is one is known when the network is open.
func (f *forecaster) slowInt8(hasFastInt8 bool) []string {
	if f.model.Int8 == nil || hasFastInt8 || f.waitOpen() != nil || f.model.Network == nil { // ranks, which have no int8, open it later
		return nil
	}
	if _, onDevice := f.model.Network.Plan.Device(); onDevice {
		return nil
	}
	return []string{setup.SlowInt8Warning}
}

// concurrently starts a computation and returns the function that waits for its result.
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

// read reads the model and its drift detector.
//
// Errors: those of model.Load, unless the policy continues without the network; exit 64 if the policy refuses
// drift and the model has no drift detector.
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
		return &exit.Error{Code: exit.Usage, What: "drift.on_drift is refuse, but the model has no drift detector", At: dir,
			Why: "it was trained on too few initialisations", Fix: "train on more initialisations, or remove drift.on_drift"}
	}
	if f.policy.Drift.OnDrift == ActionFallBack && f.model.Drift == nil {
		f.warnings = append(f.warnings, "drift.on_drift is fallback, but the model has no drift detector: drift is not noticed; train again")
	}
	return nil
}

// readAlarms makes the next initialisation read the alarm file again; later ones reuse the result.
func (f *forecaster) readAlarms() {
	f.alarms = sync.OnceValues(func() (string, error) {
		sum, err := f.modelChecksum()
		if err != nil || f.policy.Alarms.File == "" {
			return "", err
		}
		return promote.AlarmsOf(string(f.policy.Alarms.File), sum)
	})
}

// chooseFallback selects the fallback forecast.
//
// Errors: exit 64 if the model has none of the fallbacks that the policy lists.
func (f *forecaster) chooseFallback() error {
	if !f.policy.UsesFallback() {
		return nil
	}
	if f.fallback = f.model.SelectFallback(f.policy.Fallback); f.fallback == "" {
		return &exit.Error{Code: exit.Usage, What: "no fallback forecast is available", At: "fallback", Why: "the model has none of " + strings.Join(f.policy.Fallback, ", ") + " for all its targets and products",
			Fix: "list baselines that it was trained with, or raw; or set warn or refuse in place of fallback"}
	}
	return nil
}

// distribute distributes the model over ranks that predict together.
func (f *forecaster) distribute() error {
	f.model.Ranks = f.ranks
	if f.ranks == nil {
		return nil
	}
	if err := setup.AssignSlabs(f.ranks, f.model.Spec, f.model.Task, f.model.Grid, 1, setup.PredictMesh); err != nil {
		return err
	}
	f.model.Local = f.model.Task.ForRank(f.ranks.Shard(), f.ranks.Comm.Rank())
	return nil
}

// open starts to open the network on a single rank. Several ranks open it together, as their messages must
// come in the same order.
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

// agreeOnNetwork makes ranks that predict together continue without the network if one of them cannot read it.
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

// waitOpen waits until the network is open. It is opened, and its checksum computed, during other work.
func (f *forecaster) waitOpen() error {
	if f.opening != nil {
		<-f.opening
	}
	if f.openErr != nil || f.verifyChecksum == nil {
		return f.openErr
	}
	return f.verifyChecksum()
}

// recoverable reports whether the policy continues without the network after this error.
func (f *forecaster) recoverable(err error) bool {
	return f.policy.OnFailure == ActionFallBack && slices.Contains([]exit.Code{exit.Bug, exit.BadData, exit.NoDevice, exit.IO}, exit.CodeOf(err)) &&
		!errors.Is(err, context.Canceled)
}

// close frees the network.
func (f *forecaster) close() {
	if f.model != nil {
		f.waitOpen() // wait, so that it is not closed while in use
		f.model.Close()
	}
}

// nameMemoryFlags adds the flags of the memory limits to an error about memory.
func nameMemoryFlags(err error) error {
	return setup.NameMemoryLimit(err, setup.FlagMemory, setup.FlagWorkspace)
}
