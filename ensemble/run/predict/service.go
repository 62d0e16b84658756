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
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Service predicts inits as their files come, with a model that stays ready: its weights
// are read and its plan is compiled once. What it publishes of an init is what Run makes
// of that init alone. It is for one goroutine.
type Service struct {
	p            *prediction
	lockDeadline time.Time                  // when waiting ends for others that make the same products
	files        *fileScanner               // tells files that are complete
	contents     map[string]fileContent     // by file
	inits        map[ensemble.Init]*watcher // of each init, on its files alone
	missing      string                     // why some of the input was missing at the last scan
}

// fileContent is what is known of a file in one state.
type fileContent struct {
	mark  fingerprint.File
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
	Missing  string    // what it is waited for; empty if it is due

	files, leftOut []string
	err            error // at the deadline
}

// UnreadableFile is a file of the input whose init is not known.
type UnreadableFile struct{ Path, Reason string }

// ModelDescription say which model is ready.
type ModelDescription struct {
	Checksum string
	Finished time.Time // its training
	Version  string    // of the program that trained it
	Members  int       // that it takes
	Trained  ensemble.Period
}

// OpenService makes a model ready. Of the options, Deadline and Cycle are not used: each init
// has its own, counted from when its first file came.
//
// Errors: those of Predict before it reads an input; exit 64 under an MPI launcher and for a mesh.
func OpenService(o Options) (*Service, error) {
	if o.Mesh != "" || team.IsLaunched() {
		return nil, &exit.Error{Code: exit.Usage, What: "a resident program has one rank", At: "the MPI launcher", Fix: "start it without mpirun or srun"}
	}
	o.Deadline, o.Init, o.Warn = time.Time{}, time.Time{}, nil // candidates say what is waited for
	p := newPrediction(o, team.Teams{})
	err := p.load()
	if err == nil {
		if err = p.forecaster.waitOpen(); err != nil && p.forecaster.recoverable(err) {
			err = nil
		}
		err = nameMemoryFlags(err)
	}
	if err == nil {
		_, err = p.forecaster.modelChecksum()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return &Service{p: p, lockDeadline: p.waitDeadline(time.Time{}), files: newFileScanner(p), contents: map[string]fileContent{}, inits: map[ensemble.Init]*watcher{}}, nil
}

// Model says which model is ready.
func (r *Service) Model() ModelDescription {
	sum, _ := r.p.forecaster.modelChecksum() // it was asked for before
	return ModelDescription{Checksum: sum, Finished: r.p.forecaster.manifest.End, Version: r.p.forecaster.model.Version, Members: r.p.policy.count, Trained: r.p.forecaster.model.Trained}
}

// MissingInput is why a name, pattern or folder of the input stood for no file at the last scan; "" if each did.
func (r *Service) MissingInput() string { return r.missing }

// Unrelated is what was in folders of the input at the last scan and is no input.
func (r *Service) Unrelated() []input.UnrelatedFile { return r.p.finder.unrelated }

// PollInterval is the time between two scans.
func (r *Service) PollInterval() time.Duration { return cmp.Or(r.p.policy.Members.Poll, defaultPoll) }

// Close gives up the model.
func (r *Service) Close() {
	r.p.options.Timings.Save(r.p.forecaster.engine.Timings)
	r.p.close()
}

// Scan scans the input: which inits it has, the newest first, and which of them are due. A
// file is read for its inits when it is new, and again when it has changed; an init is judged
// when its files have.
//
// Inits before oldest are left out. A forecast does not come before its init: files that have not changed since
// then are not looked into, whatever they hold.
//
// Errors: patterns that are none; ctx.Err(). What is wrong with a file is its init's.
func (r *Service) Scan(ctx context.Context, oldest time.Time) ([]Candidate, []UnreadableFile, error) {
	files, missing := r.p.finder.list()
	if missing != nil && exit.CodeOf(missing) != exit.NotYet {
		return nil, nil, missing
	}
	if r.missing = ""; missing != nil {
		r.missing = exit.OneLine(missing)
	}
	if !oldest.IsZero() {
		files = changedSince(files, oldest.Add(-r.p.policy.Members.Lagged.MaxAge))
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
		c, err := r.decide(ctx, init, byInit[init])
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
func (r *Service) byInit(ctx context.Context, files []string) (map[ensemble.Init]*initFiles, []UnreadableFile, error) {
	complete, pending := r.files.classify(files)
	maps.DeleteFunc(r.contents, func(path string, _ fileContent) bool { _, there := r.files.states[path]; return !there })
	var unread []UnreadableFile
	byInit := map[ensemble.Init]*initFiles{}
	of := func(path string) (out []*initFiles) {
		for _, i := range r.contents[path].inits {
			if byInit[i] == nil {
				byInit[i] = &initFiles{complete: map[string]fingerprint.File{}}
			}
			out = append(out, byInit[i])
		}
		return out
	}
	for path, mark := range complete {
		if err := r.readInits(ctx, path, mark); err != nil {
			return nil, nil, err
		}
		if s := r.contents[path]; s.err != nil {
			unread = append(unread, UnreadableFile{path, exit.OneLine(s.err)})
		}
		for _, h := range of(path) {
			h.complete[path] = mark
		}
	}
	for _, w := range pending {
		if err := r.readInits(ctx, w.path, r.files.states[w.path].mark); err != nil {
			return nil, nil, err
		}
		inits := of(w.path)
		for _, h := range inits {
			h.pending = append(h.pending, w)
		}
		if inits == nil {
			unread = append(unread, UnreadableFile{w.path, w.reason})
		}
	}
	slices.SortFunc(unread, func(a, b UnreadableFile) int { return strings.Compare(a.Path, b.Path) })
	return byInit, unread, nil
}

// changedSince leaves files out that came before a time and have not changed since.
func changedSince(files []string, t time.Time) []string {
	return slices.DeleteFunc(files, func(path string) bool {
		at := fingerprint.ChangeTime(path)
		return !at.IsZero() && at.Before(t)
	})
}

// initFiles is the files of an init.
type initFiles struct {
	complete map[string]fingerprint.File
	pending  []pendingFile
}

// firstArrival is when the first of them came: the last change of its name or content here, which copies
// that keep the times of their source do not hide.
func (h *initFiles) firstArrival(states map[string]fileState) time.Time {
	var first time.Time
	earlier := func(m fingerprint.File) {
		if first.IsZero() || m.Changed.Before(first) {
			first = m.Changed
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
func joinLagged(inits map[ensemble.Init]*initFiles, age time.Duration) {
	joined := map[ensemble.Init]*initFiles{}
	for i := range inits {
		all := &initFiles{complete: map[string]fingerprint.File{}}
		for j, h := range inits {
			if d := i.Sub(j.Time); d < 0 || d > age {
				continue
			}
			maps.Copy(all.complete, h.complete)
			for _, w := range h.pending {
				if !slices.ContainsFunc(all.pending, func(x pendingFile) bool { return x.path == w.path }) {
					all.pending = append(all.pending, w)
				}
			}
		}
		joined[i] = all
	}
	maps.Copy(inits, joined)
}

// readInits finds the inits of a file, unless it is as it was.
//
// Errors: ctx.Err().
func (r *Service) readInits(ctx context.Context, path string, mark fingerprint.File) error {
	if s, ok := r.contents[path]; ok && s.mark.IsSameContent(mark) {
		return nil
	}
	s := fileContent{mark: mark}
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: r.p.pool, SkipBad: true, Sparse: r.p.options.Policy.AllowMissingChunks,
		Members: input.LayoutOf(r.p.policy.Members.MemberLayout), Cache: string(r.p.options.Policy.IndexCache), Keep: r.p.policy.isCandidate})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.err = err
	if err == nil {
		s.inits = (&ensemble.Catalogue{Entries: in.Catalogue().Select(r.p.policy.isCandidate)}).Inits()
		in.Close()
	}
	r.contents[path] = s
	return nil
}

// decide decides on one init.
//
// Errors: ctx.Err().
func (r *Service) decide(ctx context.Context, init ensemble.Init, h *initFiles) (Candidate, error) {
	v := r.inits[init]
	if v == nil {
		v = newWatcher(r.p)
		v.init = init.Time
		r.inits[init] = v
	}
	c := Candidate{Init: init, Since: h.firstArrival(r.files.states)}
	var err error
	if c.Deadline, err = r.deadline(c.Since); err != nil {
		return c, err
	}
	slices.SortFunc(h.pending, func(a, b pendingFile) int { return strings.Compare(a.path, b.path) })
	last := !c.Deadline.IsZero() && !time.Now().Before(c.Deadline)
	v.deadline = c.Deadline
	s, err := v.decide(ctx, h.complete, h.pending, nil, last)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	c.Due, c.err, c.files, c.leftOut = s.Done, err, s.Files, s.LeftOut
	if !s.Done {
		c.Missing = cmp.Or(v.lastReport, "its first files")
	}
	c.State = fileSetState(h.complete, s.LeftOut)
	return c, nil
}

// deadline is when waiting for an init ends whose first file came then.
func (r *Service) deadline(since time.Time) (end time.Time, err error) {
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

// fileSetState tells files in one state from those in another.
func fileSetState(complete map[string]fingerprint.File, left []string) string {
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
func (r *Service) Issue(ctx context.Context, c Candidate, shown func(*scoring.MapExample)) (*Result, error) {
	if c.err != nil {
		return nil, c.err
	}
	layout := "2006010215"
	if c.Init.UTC().Minute() != 0 {
		layout = "2006-01-02T15:04Z"
	}
	command := strings.TrimSpace(r.p.options.Command + " --cycle " + c.Init.UTC().Format(layout))
	r.p.forecaster.readAlarms()
	return r.p.predict(ctx, team.Teams{}, inputFiles{files: c.files, leftOut: c.leftOut, init: c.Init.Time, command: command, deadline: r.lockDeadline, onExample: shown})
}
