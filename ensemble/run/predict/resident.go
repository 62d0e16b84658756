package predict

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filemark"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Resident predicts starts as their files come, with a model that stays ready: its weights
// are read and its plan is compiled once. What it publishes of a start is what Predict makes
// of that start alone. It is for one goroutine.
type Resident struct {
	p      *prediction
	watch  *vigil                   // tells files that are complete
	seen   map[string]sighting      // by file
	starts map[ensemble.Init]*vigil // of each start, on its files alone
	lack   string                   // why some of the input was not there at the last look
}

// sighting is what is known of the content of a file in one state.
type sighting struct {
	mark  filemark.Mark
	inits []ensemble.Init // with fields that the model reads
	err   error           // why it cannot be looked into
}

// Candidate is a start of the input.
type Candidate struct {
	Init     ensemble.Init
	Due      bool      // it can be issued, or it is decided that it cannot
	State    string    // differs when its files do
	Since    time.Time // when its first file came
	Deadline time.Time // zero: it is waited for without end
	Lack     string    // what it is waited for; empty if it is due

	files, left []string
	err         error // at the deadline
}

// Unread is a file of the input whose start is not known.
type Unread struct{ Path, Why string }

// ModelFacts say which model is ready.
type ModelFacts struct {
	Checksum string
	Finished time.Time // its training
	Version  string    // of the program that trained it
	Members  int       // that it takes
	Trained  ensemble.Period
}

// OpenResident makes a model ready. Of the options, Deadline and Cycle are not used: each start
// has its own, counted from when its first file came.
//
// Errors: those of Predict before it reads an input; exit 64 under an MPI launcher and for a mesh.
func OpenResident(o Options) (*Resident, error) {
	if o.Mesh != "" || team.Launched() {
		return nil, &exit.Error{Code: exit.Usage, What: "a resident program has one rank", At: "the MPI launcher", Fix: "start it without mpirun or srun"}
	}
	o.Deadline, o.Cycle, o.Warn = time.Time{}, time.Time{}, nil // candidates say what is waited for
	p := &prediction{o: o, sums: map[string]manifest.File{}, done: map[ensemble.Init]bool{}}
	if err := p.load(); err != nil {
		p.close()
		return nil, err
	}
	if err := p.opened(); err != nil && !p.survives(err) {
		p.close()
		return nil, setup.NamedMemory(err, setup.FlagMemory, setup.FlagWorkspace)
	}
	if _, err := p.modelSum(); err != nil {
		p.close()
		return nil, err
	}
	p.demand.waits = true
	return &Resident{p: p, watch: newVigil(p), seen: map[string]sighting{}, starts: map[ensemble.Init]*vigil{}}, nil
}

// Model says which model is ready.
func (r *Resident) Model() ModelFacts {
	sum, _ := r.p.modelSum() // it was asked for before
	return ModelFacts{Checksum: sum, Finished: r.p.trained.End, Version: r.p.model.Version, Members: r.p.demand.count, Trained: r.p.model.Trained}
}

// Lack is why a name, pattern or folder of the input stood for no file at the last look; "" if each did.
func (r *Resident) Lack() string { return r.lack }

// Aside is what was in folders of the input at the last look and is none.
func (r *Resident) Aside() []input.Aside { return r.p.aside }

// Poll is the time between two looks.
func (r *Resident) Poll() time.Duration { return cmp.Or(r.p.demand.Members.Poll, defaultPoll) }

// Close gives up the model.
func (r *Resident) Close() {
	r.p.o.Timings.Save(r.p.engine.Timings)
	r.p.close()
}

// Look looks at the input: which starts it has, the newest first, and which of them are due. A
// file is read for its starts when it is new, and again when it has changed; a start is judged
// when its files have.
//
// Starts before oldest are left out. A forecast does not come before its start: files that have not changed since
// then are not looked into, whatever they hold.
//
// Errors: patterns that are none; ctx.Err(). What is wrong with a file is its start's.
func (r *Resident) Look(ctx context.Context, oldest time.Time) ([]Candidate, []Unread, error) {
	files, missing := r.p.find()
	if missing != nil && exit.CodeOf(missing) != exit.NotYet {
		return nil, nil, missing
	}
	if r.lack = ""; missing != nil {
		r.lack = exit.OneLine(missing)
	}
	if !oldest.IsZero() {
		files = touchedSince(files, oldest.Add(-r.p.demand.Members.Lagged.MaxAge))
	}
	complete, pending := r.watch.sort(files)
	maps.DeleteFunc(r.seen, func(path string, _ sighting) bool { _, there := r.watch.marks[path]; return !there })
	var unread []Unread
	byStart := map[ensemble.Init]*holding{}
	of := func(path string) []*holding {
		s := r.seen[path]
		var out []*holding
		for _, i := range s.inits {
			if byStart[i] == nil {
				byStart[i] = &holding{complete: map[string]filemark.Mark{}}
			}
			out = append(out, byStart[i])
		}
		return out
	}
	for path, mark := range complete {
		if err := r.sight(ctx, path, mark); err != nil {
			return nil, nil, err
		}
		if s := r.seen[path]; s.err != nil {
			unread = append(unread, Unread{path, exit.OneLine(s.err)})
		}
		for _, h := range of(path) {
			h.complete[path] = mark
		}
	}
	for _, w := range pending {
		mark := r.watch.marks[w.path]
		if err := r.sight(ctx, w.path, mark); err != nil {
			return nil, nil, err
		}
		starts := of(w.path)
		for _, h := range starts {
			h.pending = append(h.pending, w)
		}
		if starts == nil {
			unread = append(unread, Unread{w.path, w.why})
		}
	}
	slices.SortFunc(unread, func(a, b Unread) int { return strings.Compare(a.Path, b.Path) })
	if age := r.p.demand.Members.Lagged.MaxAge; age > 0 {
		joinLagged(byStart, age)
	}
	maps.DeleteFunc(r.starts, func(i ensemble.Init, _ *vigil) bool { return byStart[i] == nil })
	inits := slices.SortedFunc(maps.Keys(byStart), func(a, b ensemble.Init) int { return b.Compare(a.Time) })
	var out []Candidate
	for _, init := range inits {
		if init.Before(oldest) {
			continue
		}
		c, err := r.judge(ctx, init, byStart[init])
		if err != nil {
			return nil, nil, err
		}
		out = append(out, c)
	}
	return out, unread, nil
}

// touchedSince leaves files out that came before a time and have not changed since.
func touchedSince(files []string, t time.Time) []string {
	return slices.DeleteFunc(files, func(path string) bool {
		at := filemark.Touched(path)
		return !at.IsZero() && at.Before(t)
	})
}

// holding is the files of a start.
type holding struct {
	complete map[string]filemark.Mark
	pending  []waited
}

// first is when the first of them came: the last change of its name or content here, which copies
// that keep the times of their source do not hide.
func (h *holding) first(marks map[string]filemark.Mark) time.Time {
	var first time.Time
	earlier := func(m filemark.Mark) {
		if first.IsZero() || m.Touched.Before(first) {
			first = m.Touched
		}
	}
	for _, m := range h.complete {
		earlier(m)
	}
	for _, w := range h.pending {
		earlier(marks[w.path])
	}
	return first
}

// joinLagged gives each start the files of those before it that join its ensemble.
func joinLagged(starts map[ensemble.Init]*holding, age time.Duration) {
	joined := map[ensemble.Init]*holding{}
	for i := range starts {
		all := &holding{complete: map[string]filemark.Mark{}}
		for j, h := range starts {
			if d := i.Sub(j.Time); d < 0 || d > age {
				continue
			}
			maps.Copy(all.complete, h.complete)
			for _, w := range h.pending {
				if !slices.ContainsFunc(all.pending, func(x waited) bool { return x.path == w.path }) {
					all.pending = append(all.pending, w)
				}
			}
		}
		joined[i] = all
	}
	maps.Copy(starts, joined)
}

// sight finds the starts of a file, unless it is as it was.
//
// Errors: ctx.Err().
func (r *Resident) sight(ctx context.Context, path string, mark filemark.Mark) error {
	if s, ok := r.seen[path]; ok && s.mark.Same(mark) {
		return nil
	}
	s := sighting{mark: mark}
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: r.p.pool, SkipBad: true, Sparse: r.p.o.Policy.Sparse,
		Layout: input.LayoutOf(r.p.demand.Members.Layout), Cache: string(r.p.o.Policy.IndexCache), Keep: r.p.demand.candidate})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.err = err
	if err == nil {
		s.inits = (&ensemble.Catalogue{Entries: in.Catalogue().Select(r.p.demand.candidate)}).Inits()
		in.Close()
	}
	r.seen[path] = s
	return nil
}

// judge decides on one start.
//
// Errors: ctx.Err().
func (r *Resident) judge(ctx context.Context, init ensemble.Init, h *holding) (Candidate, error) {
	v := r.starts[init]
	if v == nil {
		v = &vigil{p: r.p}
		r.starts[init] = v
	}
	c := Candidate{Init: init, Since: h.first(r.watch.marks)}
	var err error
	if c.Deadline, err = r.deadline(c.Since); err != nil {
		return c, err
	}
	slices.SortFunc(h.pending, func(a, b waited) int { return strings.Compare(a.path, b.path) })
	last := !c.Deadline.IsZero() && !time.Now().Before(c.Deadline)
	v.deadline = c.Deadline
	r.p.o.Cycle, r.p.left = init.Time, nil
	l, err := v.judge(ctx, h.complete, h.pending, nil, last)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	c.Due, c.err, c.files, c.left = l.Done, err, l.Files, l.Left
	if !l.Done {
		c.Lack = cmp.Or(v.said, "its first files")
	}
	c.State = stateOf(h.complete, l.Left)
	return c, nil
}

// deadline is when waiting for a start ends whose first file came then.
func (r *Resident) deadline(since time.Time) (end time.Time, err error) {
	m := r.p.demand.Members
	if m.Deadline != "" {
		if end, err = config.ParseDeadline(string(m.Deadline), since); err != nil {
			return end, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no deadline", m.Deadline), At: "members.deadline", Fix: "write it as 06:40Z or +40m", Err: err}
		}
	}
	if m.Wait > 0 {
		if w := since.Add(m.Wait); end.IsZero() || w.Before(end) {
			end = w
		}
	}
	return end, nil
}

// stateOf tells files in one state from those in another.
func stateOf(complete map[string]filemark.Mark, left []string) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, path := range slices.Sorted(maps.Keys(complete)) {
		_ = enc.Encode(path) // a hash takes every write
		_ = enc.Encode(complete[path])
	}
	_ = enc.Encode(left)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Issue publishes a start that is due, as Predict would publish it alone. shown, unless nil, is told what a
// page shows of it; not of one that was there already.
//
// Errors: those of Predict; of a start that cannot be made, why.
func (r *Resident) Issue(ctx context.Context, c Candidate, shown func(*scoring.Example)) (*Result, error) {
	if c.err != nil {
		return nil, c.err
	}
	p := r.p
	command := p.o.Command
	defer func() { p.o.Command, p.shown = command, nil; p.release() }()
	p.o.Command = strings.TrimSpace(command + " --cycle " + c.Init.UTC().Format("2006010215"))
	if c.Init.UTC().Minute() != 0 {
		p.o.Command = strings.TrimSpace(command + " --cycle " + c.Init.UTC().Format("2006-01-02T15:04Z"))
	}
	p.o.Cycle, p.files, p.left, p.shown = c.Init.Time, c.files, c.left, shown
	clear(p.done)
	p.hearAlarms()
	res := &Result{}
	err := input.Again(func() error { return p.round(ctx, team.Crew{}, res) }, func() {
		res.Warnings = append(res.Warnings, input.RereadWarning)
		p.release()
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}
