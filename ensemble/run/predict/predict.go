package predict

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Options says what to predict from and where to publish. It is flat, as each field is a key of the configuration or a flag of
// the command, under the same name.
type Options struct {
	RunDir    string            // of a finished training, or the folder of a name that Promote made
	Input     []string          // forecast files: names, patterns, folders, listed again while a prediction waits
	Policy    config.Policy     // of incomplete and defective input
	Deadline  time.Time         // when waiting ends; zero: after Policy.Members.Wait, or at once
	Out       string            // root of the products: one folder an init
	Init      time.Time         // only this init; zero: every init of the input
	Publish   config.Publishing // which statistics, and of what part
	Formats   []product.Format
	Overwrite product.Overwrite
	// Regrid brings input on another grid to that of the model, in place of what the model
	// was trained with.
	Regrid    task.Interpolation
	Writer    product.Options
	Threads   int
	Device    string        // "cpu" (also if empty), "cuda" or "auto"
	Timings   setup.Timings // of kernels
	Precision string        // one of config.Precisions; empty has that of the training
	// Mesh lays several ranks of an MPI job out over each init; empty, every rank predicts
	// whole inits.
	Mesh string
	// MemoryBytes bounds what a network's fields and the scratch of kernels take, and
	// WorkspaceBytes the scratch alone; 0 means no bound. They change no bit.
	MemoryBytes, WorkspaceBytes int64

	Command     string // for the history in the products
	Version     string
	Progress    *progress.Reporter
	Warn        func(string)              `json:"-"` // is given what is waited for; nil drops it
	OnUnrelated func(input.UnrelatedFile) `json:"-"` // is given once each file of a folder that is no input; nil drops it
}

// Result says what was published.
type Result struct {
	Outputs  []string // files and stores
	Inits    int
	Existing int // cycles that were published before from the same input and model
	Degraded int // cycles that were made from less than was expected
	Warnings []string
}

// Run turns the members of each init of the input into a distribution and
// publishes what is asked for of it: mean and spread, quantiles, probabilities of events,
// calibrated members. Starts without analyses are all it needs.
//
// Started by an MPI launcher, its inits are distributed over the ranks: each
// is read, computed and published by one rank, or by the ranks of one mesh together. All
// ranks give the same result.
//
// Errors: 64 for products that the model cannot give; 64 and 69 for a bound of the memory
// that is too small, with the least that will do; 65 and 66 for the input, 66 without a trained model, 71 for a rank that was
// lost, 73 and 74 for the output; what was published before an error stays valid. The
// folder "reference" in the root of the products gets the model without its weights, so
// that verification finds the baselines.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	err = team.RunTeams(o.Mesh, config.DefaultStallTimeout, func(w team.Teams) error {
		r, err = RunRank(ctx, o, w)
		return err
	})
	return r, err
}

// RunRank predicts as one rank of a crew.
func RunRank(ctx context.Context, o Options, w team.Teams) (*Result, error) {
	p := newPrediction(o, w)
	defer p.close()
	if err := w.All.AgreeOnError(p.load()); err != nil {
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

// prediction is a model that is ready, and what is the same for all inputs: an input goes through the stages
// find, open, and its inits one by one through read, forecast, fill, write and record, each in the file of its name.
type prediction struct {
	options    Options
	multiRank  bool // there are other ranks
	forecaster *forecaster
	pool       *decode.Pool
	policy     *inputPolicy
	finder     finder
	archive    *members.Archive // of the templates of members; nil for none
}

func newPrediction(o Options, w team.Teams) *prediction {
	return &prediction{options: o, multiRank: w.All != nil, forecaster: &forecaster{policy: o.Policy, ranks: w.Own},
		finder: finder{patterns: o.Input, onUnrelated: o.OnUnrelated}}
}

func (p *prediction) close() {
	if p.archive != nil {
		p.archive.In.Close()
	}
	if p.pool != nil {
		p.pool.Close()
	}
	p.forecaster.close()
}

// predict predicts the inits of the files that were found; if one changed while it was read, those that are left once more.
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

// predictRemaining predicts the inits of the input that are not done.
func (p *prediction) predictRemaining(ctx context.Context, w team.Teams, f inputFiles, r *results) error {
	in, err := p.open(ctx, f, r.done)
	defer in.close()
	if err == nil {
		err = in.compareDuplicates(ctx, team.Assigned(w, in.inits))
	}
	if err := w.All.AgreeOnError(err); err != nil {
		return err
	}
	if w.All != nil {
		id, err := in.identity()
		if err := w.All.AgreeOnError(err); err != nil {
			return err
		}
		if err := w.All.CheckSame("the program, the model, the input or the command line", id); err != nil {
			return err
		}
	}
	r.Warnings = append(r.Warnings, in.warnings...)
	task := p.options.Progress.Start("predict", int64(len(in.inits)))
	defer task.Done()
	return team.Distribute(ctx, w, len(in.inits), func(i int) (initResult, error) { return in.predict(ctx, in.inits[i], i == 0) },
		func(i int, one initResult) error {
			r.addInit(in.inits[i], one)
			task.Set(int64(i+1), in.inits[i].String())
			return nil
		})
}

// predict takes one init through the stages, unless the very same products are there. With the first one, the model's
// baselines are published too.
func (in *openInput) predict(ctx context.Context, init ensemble.Init, first bool) (r initResult, err error) {
	f := in.p.forecaster
	there, got, err := in.readUnlessPublished(ctx, init)
	if err != nil {
		return r, err
	}
	if there != nil {
		in.p.cleanUp(init)
		return resultOf(in.p.options.Out, init, there, nil), in.p.completeReference(first)
	}
	failure := f.waitOpen()
	if failure != nil && !f.recoverable(failure) {
		return r, nameMemoryFlags(failure)
	}
	lock, there, err := in.lock(ctx, init)
	if err != nil || there != nil {
		return resultOf(in.p.options.Out, init, there, nil), err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if f.ranks != nil {
		ctx = context.WithoutCancel(ctx) // the others would wait
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
	r = resultOf(in.p.options.Out, init, made, slices.DeleteFunc(pub.Warnings, func(w string) bool { return w == in.otherModel })) // which is told once
	r.Existing = already
	return r, nil
}
