package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"golang.org/x/sync/errgroup"
)

// Options says what to predict from and where to publish.
type Options struct {
	RunDir    string            // of a finished training, or the folder of a name that Promote made
	Input     []string          // forecast files: names, patterns, folders, looked at again while a prediction waits
	Policy    config.Policy     // of incomplete and defective input
	Deadline  time.Time         // when waiting ends; zero: after Policy.Members.Wait, or at once
	Out       string            // root of the products: one folder a cycle
	Cycle     time.Time         // only this start; zero: every start of the input
	Publish   config.Publishing // which statistics, and of what part
	Formats   []product.Format
	Overwrite product.Overwrite
	// Regrid brings input on another grid to that of the model, in place of what the model
	// was trained with.
	Regrid    model.Interpolation
	Writer    product.Options
	Threads   int
	Device    string        // "cpu" (also if empty), "cuda" or "auto"
	Timings   setup.Timings // of kernels
	Precision string        // one of config.Precisions; empty has that of the training
	// Mesh lays several ranks of an MPI job out over each start; empty, every rank predicts
	// whole starts.
	Mesh string
	// MemoryBytes bounds what a network's fields and the scratch of kernels take, and
	// WorkspaceBytes the scratch alone; 0 means no bound. They change no bit.
	MemoryBytes, WorkspaceBytes int64

	Command  string // for the history in the products
	Version  string
	Progress *progress.Reporter
	Warn     func(string)      `json:"-"` // told what is waited for; nil drops it
	Aside    func(input.Aside) `json:"-"` // told once what in folders of the input is none; nil drops it
}

// Result says what was published.
type Result struct {
	Outputs  []string // files and stores
	Cycles   int
	Already  int // cycles that were published before from the same input and model
	Degraded int // cycles that were made from less than was expected
	Warnings []string
}

// Run turns the members of each start of the input into a distribution and
// publishes what is asked for of it: mean and spread, quantiles, probabilities of events,
// calibrated members. Starts without analyses are all it needs.
//
// Started by an MPI launcher, its ranks deal the starts out among themselves: each start
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
	p := &prediction{o: o, ranks: w.Share, ofJob: w.All != nil, sums: map[string]manifest.File{}, done: map[ensemble.Init]bool{}}
	defer p.close()
	if err := w.All.Together(p.load()); err != nil {
		return nil, err
	}
	if err := w.All.Together(p.agree()); err != nil {
		return nil, err
	}
	if err := p.await(ctx, w); err != nil {
		return nil, err
	}
	res := &Result{}
	err := input.Again(func() error { return p.round(ctx, w, res) }, func() {
		res.Warnings = append(res.Warnings, input.RereadWarning)
		p.release()
	})
	if w.All.Leads() {
		o.Timings.Save(p.engine.Timings)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// round predicts the starts of the input that are not done.
func (p *prediction) round(ctx context.Context, w team.Crew, res *Result) error {
	err := p.open(ctx)
	if err == nil {
		err = p.compare(ctx, team.Mine(w, p.inits))
	}
	if err := w.All.Together(err); err != nil {
		return err
	}
	if w.All != nil {
		id, err := p.identity()
		if err := w.All.Together(err); err != nil {
			return err
		}
		if err := w.All.Same("the program, the model, the input or the command line", id); err != nil {
			return err
		}
	}
	res.Warnings = append(res.Warnings, p.warnings...)
	task := p.o.Progress.Start("predict", int64(len(p.inits)))
	defer task.Done()
	return team.Deal(ctx, w, len(p.inits), func(i int) (published, error) { return p.start(ctx, p.inits[i], i == 0) },
		func(i int, r published) error {
			p.done[p.inits[i]] = true
			res.Cycles++
			if r.Already {
				res.Already++
			}
			if r.Degraded {
				res.Degraded++
			}
			res.Outputs, res.Warnings = append(res.Outputs, r.Outputs...), append(res.Warnings, r.Warnings...)
			task.Set(int64(i+1), p.inits[i].String())
			return nil
		})
}

// prediction is what all starts of a Predict have in common.
type prediction struct {
	o         Options
	trained   *rundir.Manifest
	model     *model.Model
	opening   chan struct{} // closed when the network is open, or cannot be; nil where ranks open it together
	unopened  error
	modelSum  func() (string, error) // waits for it
	intact    func() error           // compares it with that of the training; nil until the model is loaded
	ranks     *team.Team             // that predict one start together
	pool      *decode.Pool
	demand    *demand
	listing   fio.Listing
	aside     []input.Aside // of the input at the last look
	files     []string      // of the input
	left      []string      // files that were left out at the deadline, with reasons
	input     *fio.Input
	cat       *ensemble.Catalogue // of the input, as the policy sees it
	ages      map[ensemble.Member]time.Duration
	undecoded map[ensemble.Entry]bool
	in        *input.Selection
	inits     []ensemble.Init
	done      map[ensemble.Init]bool
	tolerated []string // faults of the input that the policy lets pass
	warnings  []string
	standing  []string               // warnings about model and machine, whatever the input
	foreign   string                 // how the input is of another forecast model, "" if it is not
	rung      string                 // what forecasts where the policy falls back
	alarmed   func() (string, error) // what the verification's alarms say of the model
	choice    *choice
	archive   *members.Archive // of the templates of members; nil for none
	templates map[templateKey]ensemble.Entry
	sums      map[string]manifest.File // of the files that this rank has read so far
	until     time.Time                // when waiting ends, for input and for others; zero: no waiting
	ofJob     bool                     // there are other ranks
	engine    engine.Options
	shown     func(*scoring.Example) // told what a page shows of each start; nil for none
}

// load loads the model. close is called in any case.
func (p *prediction) load() (err error) {
	var promoted string // the checksum that the model must have
	if p.o.RunDir, promoted, err = promote.InUse(p.o.RunDir); err != nil {
		return err
	}
	o := p.o
	if p.trained, err = trained.Finished(o.RunDir); err != nil {
		return err
	}
	if p.pool, err = decode.NewPool(decode.Options{}); err != nil {
		return err
	}
	p.pool.Start(1) // which writes
	modelDir := filepath.Join(o.RunDir, "model")
	p.modelSum = beside(func() (string, error) {
		sum, err := trained.ModelChecksum(modelDir)
		if err == nil && promoted != "" && sum != promoted {
			err = promote.ChangedModel(filepath.Dir(filepath.Dir(o.RunDir)), filepath.Base(o.RunDir), sum)
		}
		return sum, err
	})
	p.intact = sync.OnceValue(func() error {
		sum, err := p.modelSum()
		if err != nil {
			return err
		}
		return promote.AsTrained(modelDir, sum, p.trained)
	})
	if err = p.loadModel(modelDir); err != nil {
		return err
	}
	if err = p.model.ReadOnly(o.Policy.Leads); err != nil {
		return err
	}
	if p.model.Int8 != nil && !cpu.FastInt8() {
		p.standing = append(p.standing, setup.SlowInt8)
	}
	p.model.Ranks = p.ranks
	if p.demand, err = demandOf(p.model, o.Policy); err != nil {
		return err
	}
	if p.ranks != nil {
		if err := setup.LayOut(p.ranks, p.model.Spec, p.model.Task, p.model.Grid, 1); err != nil {
			return err
		}
		p.model.Local = p.model.Task.Local(p.ranks.Own(), p.ranks.Comm.Rank())
	}
	p.engine = o.engineOptions()
	if p.ranks == nil && p.unopened == nil { // messages of ranks have an order
		p.opening = make(chan struct{})
		go func() {
			defer close(p.opening)
			p.unopened = p.model.Open(p.engine)
		}()
	}
	return nil
}

// opened waits for the network, which is opened beside other work, as the checksum of its files is made.
func (p *prediction) opened() error {
	if p.opening != nil {
		<-p.opening
	}
	if p.unopened != nil || p.intact == nil {
		return p.unopened
	}
	return p.intact()
}

// beside begins to compute something, and gives the function that waits for it.
func beside[T any](f func() (T, error)) func() (T, error) {
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

// open looks through the input.
func (p *prediction) open(ctx context.Context) (err error) {
	if err = p.index(ctx, p.files); err != nil {
		return err
	}
	if err = p.choose(p.demand); err != nil {
		return err
	}
	if slices.ContainsFunc(p.in.Entries, p.input.InChild) {
		p.pool.Start(p.pool.Size())
	}
	if p.in.From != nil {
		if err = p.in.From.Prepare(p.in.Entries); err != nil {
			return err
		}
	}
	if p.inits = slices.DeleteFunc(slices.Clone(p.in.Inits), func(i ensemble.Init) bool { return p.done[i] }); len(p.in.Inits) == 0 {
		return input.MissingInit(ensemble.InitAt(p.o.Cycle), p.cat.Inits())
	}
	return nil
}

// release closes the input.
func (p *prediction) release() {
	if p.input != nil {
		p.input.Close()
		p.input = nil
	}
	clear(p.sums)
}

func (p *prediction) close() {
	p.release()
	if p.archive != nil {
		p.archive.In.Close()
	}
	if p.pool != nil {
		p.pool.Close()
	}
	if p.model != nil {
		p.opened() // no longer used while it is closed
		p.model.Close()
	}
}

// identity is what all ranks must have alike. Files are told apart by their names and
// the starts in them; each is read, and its checksum made, by the ranks that need it.
func (p *prediction) identity() (string, error) {
	sum, err := p.modelSum()
	return fmt.Sprint(p.o.Version, sum, p.trained.ConfigChecksum, p.files, p.o.Policy, p.o.Out, p.o.Publish, p.o.Formats, p.o.Overwrite, p.o.Writer, p.o.Precision, p.o.Regrid, p.inits), err
}

// published is what came of one start.
type published struct {
	Outputs, Warnings []string
	Already, Degraded bool
}

// start predicts and publishes one start, unless the very same products are there. With
// the first one, the model's baselines are published too.
func (p *prediction) start(ctx context.Context, init ensemble.Init, first bool) (r published, err error) {
	there, got, err := p.look(ctx, init)
	if err != nil || there != nil {
		if err == nil {
			p.tidy(init)
			err = p.completeReference(first)
		}
		return p.publishedAs(init, there, nil), err
	}
	bad := p.opened()
	if bad != nil && !p.survives(bad) {
		return r, setup.NamedMemory(bad, setup.FlagMemory, setup.FlagWorkspace)
	}
	lock, there, err := p.lock(ctx, init)
	if err != nil || there != nil {
		return p.publishedAs(init, there, nil), err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if p.ranks != nil {
		ctx = context.WithoutCancel(ctx) // the others would wait
	}
	few := p.in.Rations[init].Few
	if p.ranks != nil && bad == nil && !few {
		if _, bad = team.Tell(p.ranks, team.Outcome[bool]{}, p.model.Open(p.engine)); bad != nil && !p.survives(bad) {
			return r, setup.NamedMemory(bad, setup.FlagMemory, setup.FlagWorkspace)
		}
	}
	begun := time.Now()
	switch {
	case bad != nil || few:
		got, err = p.withoutNetwork(ctx, init, got.forecast)
	case got.started == nil:
		got.started, err = p.begin(got.forecast, p.in.Rations[init].Members)
		got.forecast = nil
	}
	if err != nil {
		return r, setup.NamedMemory(err, setup.FlagMemory, setup.FlagWorkspace)
	}
	trust, err := p.trust(init, got.input)
	if err != nil {
		return r, err
	}
	out, err := p.forecast(ctx, init, got.started, trust, bad)
	if err != nil || !p.ranks.Leads() {
		return r, err
	}
	q, pub, err := p.publication(init, p.chosen(trust))
	if err != nil {
		return r, err
	}
	pub.Start, pub.Lock, pub.Warnings = begun, lock, append(pub.Warnings, got.warnings...)
	p.distrust(q, &pub, trust)
	if out.Clipped > 0 {
		pub.Warnings = append(pub.Warnings, fmt.Sprintf("start %s: %d values of the spread of the full ensemble were below 0 and are 0", init, out.Clipped))
	}
	if err := p.template(ctx, init, q.Members); err != nil {
		return r, err
	}
	if err := p.chosen(trust).fill(q, out, got.raw); err != nil {
		return r, err
	}
	if err := addTemplates(q, p.input, p.templates); err != nil {
		return r, err
	}
	if err := p.input.Unchanged(p.filesOf(init)...); err != nil {
		return r, err
	}
	made, already, err := product.Publish(ctx, p.pool, p.o.Out, q, pub)
	if err != nil {
		return r, err
	}
	if p.shown != nil {
		p.shown(scoring.ExampleOfStart(p.model, init, q.Members, q.Control, got.stats, out))
	}
	if first && p.hasReference() { // not before: a refused model must not replace the reference of another
		if err := p.model.SaveReference(filepath.Join(p.o.Out, trained.ReferenceDir)); err != nil {
			return r, err
		}
	}
	r = p.publishedAs(init, made, slices.DeleteFunc(pub.Warnings, func(w string) bool { return w == p.foreign })) // which is told once
	r.Already = already
	return r, nil
}

// hasReference tells whether all is there that is left beside products, as it is unless files of the model are damaged.
func (p *prediction) hasReference() bool { return p.model.Task.Features.Fields != nil }

// completeReference leaves the baselines beside a start that is complete, where the process that published it ended before
// it had: by a full disk, or killed.
func (p *prediction) completeReference(first bool) error {
	dir := filepath.Join(p.o.Out, trained.ReferenceDir)
	if _, err := os.Stat(filepath.Join(dir, model.File)); !first || !errors.Is(err, fs.ErrNotExist) || !p.hasReference() || !p.ranks.Leads() {
		return nil
	}
	return p.model.SaveReference(dir)
}

// begin makes the input of the network, which is open, of the forecast of ranks that predict together, whose
// values it gives back to the system before the network needs memory.
func (p *prediction) begin(fc *ensemble.Forecast, realisations []ensemble.Member) (s *started, err error) {
	s = &started{}
	if p.keepsMembers() {
		if s.raw, err = members.RawMembers(p.model, fc, realisations); err != nil {
			return nil, err
		}
	}
	if s.stats, err = p.model.Prepare(fc, fc.Members); err != nil {
		return nil, err
	}
	if s.input, err = p.judge(fc); err != nil {
		return nil, err
	}
	if len(fc.Values) > largeForecast {
		fc.Values = nil
		debug.FreeOSMemory()
	}
	return s, nil
}

// largeForecast is the number of values from which on their memory is worth a collection
// of garbage.
const largeForecast = 16 << 20

// publication is what is published of a start, but for its values, and how.
func (p *prediction) publication(init ensemble.Init, ch *choice) (*product.Product, product.Publication, error) {
	r := p.in.Rations[init]
	pub := product.Publication{Formats: p.o.Formats, Overwrite: p.o.Overwrite, Options: p.o.Writer, ConfigChecksum: p.trained.ConfigChecksum,
		Expected: p.demand.count, Missing: r.Missing, Degraded: r.Degraded() || len(p.tolerated) > 0, Warnings: slices.Concat(p.tolerated, r.Warnings)}
	q := ch.product(init, r.Members)
	sum, err := p.modelSum()
	if err != nil {
		return nil, pub, err
	}
	q.Command, q.Version, q.ModelChecksum = p.o.Command, p.o.Version, sum
	q.Control = cmp.Or(p.o.Policy.Members.Control, q.Control)
	for _, m := range r.Members {
		if p.ages != nil {
			q.Ages = append(q.Ages, p.ages[m])
		}
	}
	if q.Template, err = p.templateTimes(init, r.Members); err != nil {
		return q, pub, err
	}
	files := p.filesOf(init)
	if q.Template != nil {
		files = append(files, p.archive.Files(q.Template)...)
	}
	q.Inputs, err = p.inputsOf(files)
	return q, pub, err
}

// already gives the manifest of a start that was published before from the same input, as
// the leading rank finds it; nil if it is to be made.
func (p *prediction) already(init ensemble.Init) (*product.Manifest, error) {
	var there *product.Manifest
	var err error
	if p.ranks.Leads() {
		there, err = p.existing(init)
	}
	return p.told(there, err)
}

// existing is already, on one rank.
func (p *prediction) existing(init ensemble.Init) (*product.Manifest, error) {
	q, pub, err := p.publication(init, p.choice)
	if err != nil {
		return nil, err
	}
	return product.Published(product.CycleDir(p.o.Out, init), pub.Manifest(q), pub.Overwrite)
}

// publishedAs is the result of a start from its manifest.
func (p *prediction) publishedAs(init ensemble.Init, m *product.Manifest, warnings []string) (r published) {
	if m == nil {
		return r
	}
	r = published{Warnings: warnings, Already: true, Degraded: m.Status == manifest.Degraded}
	if r.Degraded && warnings == nil {
		r.Warnings = m.Warnings // why it was, of the time when it was made
	}
	for _, name := range m.Tops() {
		r.Outputs = append(r.Outputs, filepath.Join(product.CycleDir(p.o.Out, init), name))
	}
	return r
}

// FilesOf are the files that hold the fields that are used of a start.
func (p *prediction) filesOf(init ensemble.Init) []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range p.in.Entries {
		if e.Init == init && !seen[e.File] {
			seen[e.File], out = true, append(out, e.File)
		}
	}
	return out
}

// inputsOf lists files that a start is made from, by name: what else was on the command line,
// in what order and in which folders, is no part of a product.
func (p *prediction) inputsOf(files []string) ([]manifest.File, error) {
	var out []manifest.File
	unknown := slices.DeleteFunc(slices.Clone(files), func(f string) bool { _, ok := p.sums[f]; return ok })
	sums := make([]manifest.File, len(unknown))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range unknown {
		g.Go(func() error {
			s, err := manifest.Sum(file)
			if err == nil {
				sums[i] = s[0]
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, file := range unknown {
		p.sums[file] = sums[i]
	}
	for _, file := range files {
		s := p.sums[file]
		s.Path = filepath.Base(s.Path)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b manifest.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	})
	return out, nil
}

// engineOptions are those of a prediction's plan; the caller saves its timings.
func (o Options) engineOptions() engine.Options {
	return setup.Inference{Threads: o.Threads, Device: o.Device, Timings: o.Timings, Precision: o.Precision, Memory: o.MemoryBytes, Workspace: o.WorkspaceBytes}.Options()
}

// templateKey says which fields of a product one GRIB message serves.
type templateKey struct {
	init     ensemble.Init
	variable string
	level    ensemble.Level
	lead     ensemble.Lead
	member   ensemble.Member // NoMember: statistics over members
}

// templates finds for every start, variable, level and lead the GRIB message of each
// used member, and for statistics that of the first of them, so that centre, tables and
// times of the output are the input's. Messages on another grid than the output's serve none.
func templates(entries []ensemble.Entry, used []ensemble.Member, grid *ensemble.Grid) map[templateKey]ensemble.Entry {
	out := map[templateKey]ensemble.Entry{}
	for _, e := range entries {
		if e.Length == 0 || e.Product != ensemble.MemberField || !slices.Contains(used, e.Member) || !e.Grid.SameAs(grid, input.GridTolerance) {
			continue
		}
		k := templateKey{e.Init, e.Variable, e.Level, e.Lead, e.Member}
		out[k] = e
		k.member = ensemble.NoMember
		if have, ok := out[k]; !ok || e.Member < have.Member {
			out[k] = e
		}
	}
	return out
}

// addTemplates reads the messages that a product is made like.
func addTemplates(p *product.Product, in *fio.Input, found map[templateKey]ensemble.Entry) error {
	read := map[ensemble.Entry][]byte{}
	for i := range p.Fields {
		f := &p.Fields[i]
		k := templateKey{p.Init, f.Variable, f.Level, f.Lead, ensemble.NoMember}
		switch {
		case f.Kind == product.Member && p.Template != nil: // which has other members; the last one is no control
			k.member = p.Members[len(p.Members)-1]
		case f.Kind == product.Member:
			k.member = f.Member
		}
		e, ok := found[k]
		if !ok {
			continue // of NetCDF files, or on another grid
		}
		if read[e] == nil {
			var err error
			if read[e], err = in.Message(e); err != nil {
				return err
			}
		}
		f.Template = read[e]
	}
	return nil
}
