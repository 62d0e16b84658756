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
	Cycle     time.Time         // only this init; zero: every init of the input
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

	Command  string // for the history in the products
	Version  string
	Progress *progress.Reporter
	Warn     func(string)      `json:"-"` // is given what is waited for; nil drops it
	Aside    func(input.Aside) `json:"-"` // is given once each file of a folder that is no input; nil drops it
}

// Result says what was published.
type Result struct {
	Outputs  []string // files and stores
	Cycles   int
	Already  int // cycles that were published before from the same input and model
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
	err = team.OnCrew(o.Mesh, config.DefaultStall, func(w team.Crew) error {
		r, err = RunAs(ctx, o, w)
		return err
	})
	return r, err
}

// RunAs predicts as one rank of a crew.
func RunAs(ctx context.Context, o Options, w team.Crew) (*Result, error) {
	p := newPrediction(o, w)
	defer p.close()
	if err := w.All.Together(p.load()); err != nil {
		return nil, err
	}
	if err := w.All.Together(p.forecaster.agree()); err != nil {
		return nil, err
	}
	f, err := p.find(ctx, w)
	if err != nil {
		return nil, err
	}
	f.command = o.Command
	res, err := p.predict(ctx, w, f)
	if w.All.Leads() {
		o.Timings.Save(p.forecaster.engine.Timings)
	}
	return res, err
}

// prediction is a model that is ready, and what is the same for all inputs: an input goes through the stages
// find, open, and its inits one by one through read, forecast, fill, write and record, each in the file of its name.
type prediction struct {
	o          Options
	ofJob      bool // there are other ranks
	forecaster *forecaster
	pool       *decode.Pool
	policy     *inputPolicy
	finder     finder
	archive    *members.Archive // of the templates of members; nil for none
}

func newPrediction(o Options, w team.Crew) *prediction {
	return &prediction{o: o, ofJob: w.All != nil, forecaster: &forecaster{policy: o.Policy, ranks: w.Share},
		finder: finder{patterns: o.Input, unrelatedTo: o.Aside}}
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
func (p *prediction) predict(ctx context.Context, w team.Crew, f found) (*Result, error) {
	r := &record{done: map[ensemble.Init]bool{}}
	err := input.Again(func() error { return p.round(ctx, w, f, r) }, func() {
		r.Warnings = append(r.Warnings, input.RereadWarning)
	})
	if err != nil {
		return nil, err
	}
	return &r.Result, nil
}

// round predicts the inits of the input that are not done.
func (p *prediction) round(ctx context.Context, w team.Crew, f found, r *record) error {
	in, err := p.open(ctx, f, r.done)
	defer in.close()
	if err == nil {
		err = in.compare(ctx, team.Mine(w, in.inits))
	}
	if err := w.All.Together(err); err != nil {
		return err
	}
	if w.All != nil {
		id, err := in.identity()
		if err := w.All.Together(err); err != nil {
			return err
		}
		if err := w.All.Same("the program, the model, the input or the command line", id); err != nil {
			return err
		}
	}
	r.Warnings = append(r.Warnings, in.warnings...)
	task := p.o.Progress.Start("predict", int64(len(in.inits)))
	defer task.Done()
	return team.Deal(ctx, w, len(in.inits), func(i int) (published, error) { return in.predict(ctx, in.inits[i], i == 0) },
		func(i int, one published) error {
			r.add(in.inits[i], one)
			task.Set(int64(i+1), in.inits[i].String())
			return nil
		})
}

// predict takes one init through the stages, unless the very same products are there. With the first one, the model's
// baselines are published too.
func (in *opened) predict(ctx context.Context, init ensemble.Init, first bool) (r published, err error) {
	f := in.p.forecaster
	there, got, err := in.readUnlessThere(ctx, init)
	if err != nil {
		return r, err
	}
	if there != nil {
		in.p.tidy(init)
		return publishedAs(in.p.o.Out, init, there, nil), in.p.completeReference(first)
	}
	failure := f.opened()
	if failure != nil && !f.recoverable(failure) {
		return r, named(failure)
	}
	lock, there, err := in.lock(ctx, init)
	if err != nil || there != nil {
		return publishedAs(in.p.o.Out, init, there, nil), err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if f.ranks != nil {
		ctx = context.WithoutCancel(ctx) // the others would wait
	}
	fc, err := in.forecast(ctx, init, got, failure)
	if err != nil || !f.ranks.Leads() {
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
	if err := in.show(q, fc, first); err != nil {
		return r, err
	}
	r = publishedAs(in.p.o.Out, init, made, slices.DeleteFunc(pub.Warnings, func(w string) bool { return w == in.foreign })) // which is told once
	r.Already = already
	return r, nil
}
