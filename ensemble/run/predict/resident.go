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
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filemark"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Resident predicts inits as their files come, with a model that stays ready: its weights
// are read and its plan is compiled once. What it publishes of an init is what Run makes
// of that init alone. It is for one goroutine.
type Resident struct {
	p     *prediction
	until time.Time                  // when waiting ends for others that make the same products
	files *fileScanner               // tells files that are complete
	seen  map[string]content         // by file
	inits map[ensemble.Init]*watcher // of each init, on its files alone
	lack  string                     // why some of the input was missing at the last scan
}

// content is what is known of a file in one state.
type content struct {
	mark  filemark.Mark
	inits []ensemble.Init // with fields that the model reads
	err   error           // why it cannot be looked into
}

// Candidate is an init of the input.
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

// Unread is a file of the input whose init is not known.
type Unread struct{ Path, Why string }

// ModelFacts say which model is ready.
type ModelFacts struct {
	Checksum string
	Finished time.Time // its training
	Version  string    // of the program that trained it
	Members  int       // that it takes
	Trained  ensemble.Period
}

// OpenResident makes a model ready. Of the options, Deadline and Cycle are not used: each init
// has its own, counted from when its first file came.
//
// Errors: those of Predict before it reads an input; exit 64 under an MPI launcher and for a mesh.
func OpenResident(o Options) (*Resident, error) {
	if o.Mesh != "" || team.Launched() {
		return nil, &exit.Error{Code: exit.Usage, What: "a resident program has one rank", At: "the MPI launcher", Fix: "start it without mpirun or srun"}
	}
	o.Deadline, o.Cycle, o.Warn = time.Time{}, time.Time{}, nil // candidates say what is waited for
	p := newPrediction(o, team.Crew{})
	err := p.load()
	if err == nil {
		if err = p.forecaster.opened(); err != nil && p.forecaster.recoverable(err) {
			err = nil
		}
		err = named(err)
	}
	if err == nil {
		_, err = p.forecaster.modelSum()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return &Resident{p: p, until: p.endOfWaiting(time.Time{}), files: newFileScanner(p), seen: map[string]content{}, inits: map[ensemble.Init]*watcher{}}, nil
}

// Model says which model is ready.
func (r *Resident) Model() ModelFacts {
	sum, _ := r.p.forecaster.modelSum() // it was asked for before
	return ModelFacts{Checksum: sum, Finished: r.p.forecaster.trained.End, Version: r.p.forecaster.model.Version, Members: r.p.policy.count, Trained: r.p.forecaster.model.Trained}
}

// Lack is why a name, pattern or folder of the input stood for no file at the last scan; "" if each did.
func (r *Resident) Lack() string { return r.lack }

// Aside is what was in folders of the input at the last scan and is no input.
func (r *Resident) Aside() []input.Aside { return r.p.finder.unrelated }

// Poll is the time between two scans.
func (r *Resident) Poll() time.Duration { return cmp.Or(r.p.policy.Members.Poll, defaultPoll) }

// Close gives up the model.
func (r *Resident) Close() {
	r.p.o.Timings.Save(r.p.forecaster.engine.Timings)
	r.p.close()
}

// Look scans the input: which inits it has, the newest first, and which of them are due. A
// file is read for its inits when it is new, and again when it has changed; an init is judged
// when its files have.
//
// Inits before oldest are left out. A forecast does not come before its init: files that have not changed since
// then are not looked into, whatever they hold.
//
// Errors: patterns that are none; ctx.Err(). What is wrong with a file is its init's.
func (r *Resident) Look(ctx context.Context, oldest time.Time) ([]Candidate, []Unread, error) {
	files, missing := r.p.finder.list()
	if missing != nil && exit.CodeOf(missing) != exit.NotYet {
		return nil, nil, missing
	}
	if r.lack = ""; missing != nil {
		r.lack = exit.OneLine(missing)
	}
	if !oldest.IsZero() {
		files = touchedSince(files, oldest.Add(-r.p.policy.Members.Lagged.MaxAge))
	}
	byInit, unread, err := r.byInit(ctx, files)
	if err != nil {
		return nil, nil, err
	}
	if age := r.p.policy.Members.Lagged.MaxAge; age > 0 {
		joinLagged(byInit, age)
	}
	maps.DeleteFunc(r.inits, func(i ensemble.Init, _ *watcher) bool { return byInit[i] == nil })
	var out []Candidate
	for _, init := range slices.SortedFunc(maps.Keys(byInit), func(a, b ensemble.Init) int { return b.Compare(a.Time) }) {
		if init.Before(oldest) {
			continue
		}
		c, err := r.judge(ctx, init, byInit[init])
		if err != nil {
			return nil, nil, err
		}
		out = append(out, c)
	}
	return out, unread, nil
}

// byInit finds the files of each init, and those whose init is not known.
//
// Errors: ctx.Err().
func (r *Resident) byInit(ctx context.Context, files []string) (map[ensemble.Init]*holding, []Unread, error) {
	complete, pending := r.files.sort(files)
	maps.DeleteFunc(r.seen, func(path string, _ content) bool { _, there := r.files.states[path]; return !there })
	var unread []Unread
	byInit := map[ensemble.Init]*holding{}
	of := func(path string) (out []*holding) {
		for _, i := range r.seen[path].inits {
			if byInit[i] == nil {
				byInit[i] = &holding{complete: map[string]filemark.Mark{}}
			}
			out = append(out, byInit[i])
		}
		return out
	}
	for path, mark := range complete {
		if err := r.lookInto(ctx, path, mark); err != nil {
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
		if err := r.lookInto(ctx, w.path, r.files.states[w.path].mark); err != nil {
			return nil, nil, err
		}
		inits := of(w.path)
		for _, h := range inits {
			h.pending = append(h.pending, w)
		}
		if inits == nil {
			unread = append(unread, Unread{w.path, w.why})
		}
	}
	slices.SortFunc(unread, func(a, b Unread) int { return strings.Compare(a.Path, b.Path) })
	return byInit, unread, nil
}

// touchedSince leaves files out that came before a time and have not changed since.
func touchedSince(files []string, t time.Time) []string {
	return slices.DeleteFunc(files, func(path string) bool {
		at := filemark.Touched(path)
		return !at.IsZero() && at.Before(t)
	})
}

// holding is the files of an init.
type holding struct {
	complete map[string]filemark.Mark
	pending  []waited
}

// first is when the first of them came: the last change of its name or content here, which copies
// that keep the times of their source do not hide.
func (h *holding) first(states map[string]fileState) time.Time {
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
		earlier(states[w.path].mark)
	}
	return first
}

// joinLagged gives each init the files of those before it that join its ensemble.
func joinLagged(inits map[ensemble.Init]*holding, age time.Duration) {
	joined := map[ensemble.Init]*holding{}
	for i := range inits {
		all := &holding{complete: map[string]filemark.Mark{}}
		for j, h := range inits {
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
	maps.Copy(inits, joined)
}

// lookInto finds the inits of a file, unless it is as it was.
//
// Errors: ctx.Err().
func (r *Resident) lookInto(ctx context.Context, path string, mark filemark.Mark) error {
	if s, ok := r.seen[path]; ok && s.mark.Same(mark) {
		return nil
	}
	s := content{mark: mark}
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: r.p.pool, SkipBad: true, Sparse: r.p.o.Policy.Sparse,
		Layout: input.LayoutOf(r.p.policy.Members.Layout), Cache: string(r.p.o.Policy.IndexCache), Keep: r.p.policy.candidate})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.err = err
	if err == nil {
		s.inits = (&ensemble.Catalogue{Entries: in.Catalogue().Select(r.p.policy.candidate)}).Inits()
		in.Close()
	}
	r.seen[path] = s
	return nil
}

// judge decides on one init.
//
// Errors: ctx.Err().
func (r *Resident) judge(ctx context.Context, init ensemble.Init, h *holding) (Candidate, error) {
	v := r.inits[init]
	if v == nil {
		v = newWatcher(r.p)
		v.cycle = init.Time
		r.inits[init] = v
	}
	c := Candidate{Init: init, Since: h.first(r.files.states)}
	var err error
	if c.Deadline, err = r.deadline(c.Since); err != nil {
		return c, err
	}
	slices.SortFunc(h.pending, func(a, b waited) int { return strings.Compare(a.path, b.path) })
	last := !c.Deadline.IsZero() && !time.Now().Before(c.Deadline)
	v.deadline = c.Deadline
	s, err := v.judge(ctx, h.complete, h.pending, nil, last)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	c.Due, c.err, c.files, c.left = s.Done, err, s.Files, s.Left
	if !s.Done {
		c.Lack = cmp.Or(v.said, "its first files")
	}
	c.State = stateOf(h.complete, s.Left)
	return c, nil
}

// deadline is when waiting for an init ends whose first file came then.
func (r *Resident) deadline(since time.Time) (end time.Time, err error) {
	m := r.p.policy.Members
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

// Issue publishes an init that is due, as Run would publish it alone. shown, unless nil, is given what a
// page shows of it; not of one that was there already.
//
// Errors: those of Run; of an init that cannot be made, why.
func (r *Resident) Issue(ctx context.Context, c Candidate, shown func(*scoring.Example)) (*Result, error) {
	if c.err != nil {
		return nil, c.err
	}
	layout := "2006010215"
	if c.Init.UTC().Minute() != 0 {
		layout = "2006-01-02T15:04Z"
	}
	command := strings.TrimSpace(r.p.o.Command + " --cycle " + c.Init.UTC().Format(layout))
	r.p.forecaster.readAlarms()
	return r.p.predict(ctx, team.Crew{}, found{files: c.files, left: c.left, cycle: c.Init.Time, command: command, until: r.until, shown: shown})
}
