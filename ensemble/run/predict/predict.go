package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Options are the inputs of [Run]. The struct is flat: each field is a key of predict.yaml or a flag of the
// command, under the same name. RunDir, Input and Out are required.
type Options struct {
	RunDir    string            // finished training, or model name of package promote
	Input     []string          // forecast files: names, patterns, folders, which are listed again while waiting
	Policy    config.Policy     // for incomplete, duplicate, foreign and untypical input
	Deadline  time.Time         // end of waiting for input; zero: after Policy.Members.Wait, or no waiting
	Out       string            // root of the products: one folder per initialisation
	Init      time.Time         // the only initialisation to predict; zero: all of the input
	Publish   config.Publishing // statistics, variables, levels, leads and area to publish
	Formats   []product.Format  // file formats of the products
	Overwrite product.Overwrite // what happens to existing products
	// Regrid interpolates input from another grid to that of the model. The zero value interpolates as in
	// training.
	Regrid    task.Interpolation
	Writer    product.Options // packing and compression
	Threads   int             // 0: all cores
	Device    string          // "cpu" (also if empty), "cuda" or "auto"
	Timings   setup.Timings   // measured times of kernels; the zero value keeps none
	Records   *slog.Logger    // receives what restricts the decoding program; nil is silent
	Precision string          // one of config.Precisions; empty: as in training
	// Mesh distributes each initialisation over several ranks of an MPI job, such as "lat:2 lon:2". Empty: each
	// rank predicts whole initialisations.
	Mesh string
	// MemoryBytes limits the memory of the network's fields and of kernel workspaces, WorkspaceBytes that of the
	// workspaces alone; 0: no limit. Limits change no bits of the result.
	MemoryBytes, WorkspaceBytes int64

	Clock       Clock     // tells initialisations of the past from those of the future
	Command     string    // command line, for the history attribute of the products
	Version     string    // version of the program, for the products
	Created     time.Time // time of processing in the history of products; zero: now
	Progress    *progress.Reporter
	Warn        func(string)              `json:"-"` // receives what the prediction waits for; nil drops it
	OnUnrelated func(input.UnrelatedFile) `json:"-"` // receives, once each, files in input folders that are not input; nil drops them
}

// Clock is the clock of deadlines and ages.
type Clock struct {
	// MaxFuture is the longest time that an initialisation may lie in the future; 0: DefaultMaxFuture. [Run] warns of
	// later ones, a [Service] refuses them.
	MaxFuture time.Duration
	Time      func() time.Time `json:"-"` // nil: that of the machine
	Pauses    backoff.Clock    `json:"-"` // of pauses between scans and attempts, which Time does not affect
}

// Now returns the current time.
func (c Clock) Now() time.Time {
	if c.Time != nil {
		return c.Time()
	}
	return time.Now()
}

// IsFuture reports whether an initialisation is too far in the future.
func (c Clock) IsFuture(init time.Time) bool {
	return init.Sub(c.Now()) > cmp.Or(c.MaxFuture, DefaultMaxFuture)
}

// DefaultMaxFuture is the default of Clock.MaxFuture. Forecasts arrive hours after their initialisation.
const DefaultMaxFuture = time.Hour

// futureError returns the error for an initialisation that is too far in the future; nil for others.
func (c Clock) futureError(init ensemble.Init) *exit.Error {
	if !c.IsFuture(init.Time) {
		return nil
	}
	now := c.Now()
	return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("initialisation %s is %s in the future", init, humanise.Duration(init.Sub(now))), At: "the clock of this machine, " + now.UTC().Format("2006-01-02 15:04Z"),
		Fix: "correct the clock, or the date of the files; serve.max_future is the longest time that is allowed"}
}

// Result is the outcome of a prediction.
type Result struct {
	Outputs  []string // paths of published files and Zarr stores
	Inits    int      // initialisations in the input
	Existing int      // initialisations already published from the same input and model
	Degraded int      // initialisations made from less input than expected or by the fallback
	Warnings []string // also in the manifests of the products
	ByInit   []InitResult
	Verbose  bool // Sections lists every initialisation
}

// InitResult is the outcome of one initialisation.
type InitResult struct {
	Init               ensemble.Init
	Outputs, Warnings  []string // as of Result
	Existing, Degraded bool
	Members            int // number of members used
	Complete, Expected int // numbers of complete members in the input, and of a complete input
}

// Run predicts each initialisation of the input with a trained model and publishes the requested products:
// mean and spread, quantiles, probabilities of events, calibrated members. No analyses are needed.
//
// Reads: the run directory (model/, manifest.json), the forecast files, and files that Options.Publish names
// (stations, orography, templates of the Schaake shuffle).
// Writes: a folder per initialisation with products and manifest.json, and the folder reference/ with
// the model's baselines, which verification compares with. A folder appears when it is complete. If identical
// products exist, nothing is written.
// Returns: paths of the products and counts of initialisations, the same on all ranks.
//
// Under an MPI launcher the initialisations are distributed over the ranks. One rank, or the ranks of one
// mesh, read, compute and publish each of them. The products do not depend on the number of ranks, except for
// rounding with a mesh.
//
// Errors: exit 64 for products that the model cannot provide; 64 and 69 for a memory limit that is too small,
// naming the least sufficient value; 65 for damaged input, duplicates that differ, input of another forecast
// model, and drift or alarms that the policy refuses; 66 for missing input or model; 71 if a rank is lost; 73
// and 74 for the output, also before anything is read. Products published before an error remain valid.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	err = team.RunTeams(o.Mesh, config.DefaultStallTimeout, func(w team.Teams) error {
		r, err = RunRank(ctx, o, w)
		return err
	})
	return r, err
}

// checkWritable reports a folder that cannot be written before anything is read. One that has products may have the
// requested ones: then nothing is written, unless they are replaced.
func (o Options) checkWritable() error {
	if files, err := filesystem.ReadDir(o.Out); err == nil && len(files) > 0 && o.Overwrite != product.OverwriteAlways {
		return nil
	}
	return rundir.CheckWritable(o.Out)
}

// RunRank predicts as one rank of a job; teams holds all ranks, and those that share an initialisation.
//
// Errors: as [Run].
func RunRank(ctx context.Context, o Options, w team.Teams) (*Result, error) {
	p := newPrediction(o, w)
	defer p.close()
	compared, err := setup.CompareRanks(w.All, o.Version, false, o.Threads)
	if err != nil {
		return nil, err
	}
	if compared != nil {
		p.unlikeRanks = compared.Warnings
	}
	if p.options.Progress != nil {
		ctx = progress.With(ctx, p.options.Progress)
	}
	loading := progress.Start(ctx, "load model", 0)
	if w.All.IsRoot() {
		err = o.checkWritable()
	}
	if err == nil {
		err = p.load()
	}
	loading.Done()
	if err := w.All.AgreeOnError(err); err != nil {
		return nil, err
	}
	if err := w.All.AgreeOnError(p.forecaster.agreeOnNetwork()); err != nil {
		return nil, err
	}
	f, err := p.find(ctx, w)
	if err != nil {
		return nil, err
	}
	f.command = o.Command
	res, err := p.predict(ctx, w, f)
	if w.All.IsRoot() {
		o.Timings.Save(p.forecaster.engine.Timings)
	}
	return res, err
}

// prediction is a loaded model with the state that all inputs share. An input passes the stages find and
// open; then each of its initialisations passes read, forecast, fill, write and record, each in the file of
// its name.
type prediction struct {
	options   Options
	multiRank bool // the job has other ranks
	// unlikeRanks are warnings about differences between ranks that affect bits
	unlikeRanks []string
	forecaster  *forecaster
	pool        *decode.Pool
	policy      *inputPolicy
	finder      finder
	archive     *members.Archive // past analyses for the Schaake shuffle; nil for none
}

// newPrediction returns a prediction whose model is not loaded yet.
func newPrediction(o Options, w team.Teams) *prediction {
	return &prediction{options: o, multiRank: w.All != nil, forecaster: &forecaster{policy: o.Policy, ranks: w.Own},
		finder: finder{patterns: o.Input, onUnrelated: o.OnUnrelated}}
}

// close frees the model and the decoders.
func (p *prediction) close() {
	if p.archive != nil {
		p.archive.In.Close()
	}
	if p.pool != nil {
		p.pool.Close()
	}
	p.forecaster.close()
}

// predict predicts the initialisations of the files. If a file changes while it is read, the remaining
// initialisations are predicted once more.
func (p *prediction) predict(ctx context.Context, w team.Teams, f inputFiles) (*Result, error) {
	r := &results{done: map[ensemble.Init]bool{}}
	err := input.RetryIfChanged(func() error { return p.predictRemaining(ctx, w, f, r) }, func() {
		r.Warnings = append(r.Warnings, input.RereadWarning)
	})
	if err != nil {
		return nil, err
	}
	return &r.Result, nil
}

// predictRemaining predicts the initialisations of the input that are not done.
func (p *prediction) predictRemaining(ctx context.Context, w team.Teams, f inputFiles, r *results) error {
	opening := progress.Start(ctx, "open input", 0)
	in, err := p.open(ctx, f, r.done)
	defer in.close()
	if err == nil {
		err = in.compareDuplicates(ctx, team.Assigned(w, in.tasks(), in.inits))
	}
	opening.Done()
	if err := w.All.AgreeOnError(err); err != nil {
		return err
	}
	if w.All != nil {
		id, err := in.identity()
		if err := w.All.AgreeOnError(err); err != nil {
			return err
		}
		if err := w.All.CheckSame(team.Settings("the model, the input or the command line", id, id)); err != nil {
			return err
		}
	}
	r.Warnings = append(r.Warnings, in.warnings...)
	in.warnFuture()
	task := p.options.Progress.Start("predict", int64(len(in.inits)))
	defer task.Done()
	return team.Distribute(ctx, w, in.tasks(), func(i int) (InitResult, error) { return in.predict(ctx, in.inits[i], i == 0) },
		func(i int, one InitResult) error {
			r.addInit(in.inits[i], one)
			task.Set(int64(i+1), in.inits[i].String())
			return nil
		})
}

// warnFuture warns of initialisations in the future. Products do not record it: the same input gives the same bits.
func (in *openInput) warnFuture() {
	for _, i := range in.inits {
		if e := in.p.options.Clock.futureError(i); e != nil && in.p.options.Warn != nil {
			in.p.options.Warn(exit.OneLine(e))
		}
	}
}

// perExchange is the number of initialisations of a rank between two exchanges of results.
const perExchange = 8

// tasks are the initialisations with their cost: the bytes of their messages and of their values.
func (in *openInput) tasks() team.Tasks {
	position := map[ensemble.Init]int{}
	for i, init := range in.inits {
		position[init] = i
	}
	t := team.Tasks{Costs: make([]int64, len(in.inits)), PerExchange: perExchange}
	for _, e := range in.selection.Entries {
		if i, ok := position[e.Init]; ok {
			t.Costs[i] += e.Length + 4*int64(e.Grid.Size())
		}
	}
	return t
}

// predict takes one initialisation through the stages, unless identical products exist. With the first one it
// also publishes the model's baselines.
func (in *openInput) predict(ctx context.Context, init ensemble.Init, first bool) (r InitResult, err error) {
	f := in.p.forecaster
	there, got, err := in.readUnlessPublished(ctx, init)
	if err != nil {
		return r, err
	}
	if there != nil {
		in.p.cleanUp(init)
		return in.resultOf(init, there, nil), in.p.completeReference(first)
	}
	failure := f.waitOpen()
	if failure != nil && !f.recoverable(failure) {
		return r, nameMemoryFlags(failure)
	}
	lock, there, err := in.lock(ctx, init)
	if err != nil || there != nil {
		return in.resultOf(init, there, nil), err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if f.ranks != nil {
		ctx = context.WithoutCancel(ctx) // all ranks must take part
	}
	fc, err := in.forecast(ctx, init, got, failure)
	if err != nil || !f.ranks.IsRoot() {
		return r, err
	}
	q, pub, err := in.fill(ctx, init, fc)
	if err != nil {
		return r, err
	}
	pub.Lock = lock
	made, already, err := in.write(ctx, q, pub)
	if err != nil {
		return r, err
	}
	if err := in.reportPublished(q, fc, first); err != nil {
		return r, err
	}
	r = in.resultOf(init, made, pub.Warnings)
	r.Existing = already
	return r, nil
}
