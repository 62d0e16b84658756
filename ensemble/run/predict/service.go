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
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Service predicts initialisations as their files arrive, with a model that stays loaded and compiled. Its
// products of an initialisation are those of [Run]. It is for use by one goroutine.
type Service struct {
	p            *prediction
	options      Options                    // with which Reopen opens the model
	reopening    retryTimer                 // next attempt to open the network, if LocalFault is not nil
	lockDeadline time.Time                  // deadline for locks of other processes
	files        *fileScanner               // reports which files are complete
	contents     map[string]fileContent     // by file
	inits        map[ensemble.Init]*watcher // by initialisation, for its files alone
	missing      string                     // why some of the input was missing at the last scan
	skipped      []ensemble.Init            // older than those that the last scan was asked for
}

// fileContent is what is known of a file with an unchanged mark.
type fileContent struct {
	mark  fingerprint.File
	inits []ensemble.Init // with fields that the model reads
	err   error           // why it cannot be read
	retry retryTimer      // next look, if err is no fault of its bytes
}

// Candidate is an initialisation found in the input.
type Candidate struct {
	Init     ensemble.Init
	Due      bool      // it can be issued, or has failed finally
	State    string    // hash of its files' states
	Since    time.Time // arrival of its first file
	Deadline time.Time // end of waiting; zero: none
	Missing  string    // what is missing; empty if due
	// Accepted is the source (product.OtherSource.Wanted) whose products replace existing ones; "": none.
	Accepted string

	files, leftOut []string
	err            error // at the deadline
}

// UnreadableFile is an input file whose initialisation is unknown.
type UnreadableFile struct{ Path, Reason string }

// ModelDescription describes the loaded model.
type ModelDescription struct {
	Checksum string          // checksum of its files, "sha256:…"
	Finished time.Time       // end of its training
	Version  string          // program that trained it
	Members  int             // number of input members
	Trained  ensemble.Period // initialisations of the training samples, first to last
}

// OpenService loads a model and compiles its network. Options.Deadline and Options.Init are not used: each
// initialisation has its own deadline.
//
// Errors: those of [Run] before it reads input; exit 64 under an MPI launcher and for a mesh.
func OpenService(o Options) (*Service, error) {
	if o.Mesh != "" || team.IsLaunched() {
		return nil, &exit.Error{Code: exit.Usage, What: "the service runs on one rank", At: "the MPI launcher", Fix: "start it without mpirun and srun"}
	}
	o.Deadline, o.Init, o.Warn = time.Time{}, time.Time{}, nil // candidates report what is missing
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
	r := &Service{p: p, options: o, lockDeadline: p.waitDeadline(time.Time{}), files: newFileScanner(p), contents: map[string]fileContent{}, inits: map[ensemble.Init]*watcher{}}
	if r.LocalFault() != nil {
		r.reopening.fail(o.Clock.Pauses.Now(), r.PollInterval())
	}
	return r, nil
}

// LocalFault returns why the fallback replaces a network that could not be opened for another reason than its files,
// such as a device without memory. It is nil for a network that is open or damaged.
func (r *Service) LocalFault() error {
	if err := r.p.forecaster.openErr; err != nil && !isContentFault(err) {
		return err
	}
	return nil
}

// Reopen opens the model again, after growing pauses, if there is a local fault. It returns nil if there is none, during
// a pause, and with the error if the attempt fails. The caller closes r after a success.
//
// Errors: those of OpenService; a local fault that persists.
func (r *Service) Reopen() (*Service, error) {
	if r.LocalFault() == nil || !r.reopening.isDue(r.pauseTime()) {
		return nil, nil
	}
	again, err := OpenService(r.options)
	if err == nil {
		if err = again.LocalFault(); err == nil {
			return again, nil
		}
		again.Close()
	}
	r.reopening.fail(r.pauseTime(), r.PollInterval())
	return nil, err
}

// Model describes the loaded model.
func (r *Service) Model() ModelDescription {
	sum, _ := r.p.forecaster.modelChecksum() // reported before
	return ModelDescription{Checksum: sum, Finished: r.p.forecaster.manifest.End, Version: r.p.forecaster.model.Version, Members: r.p.policy.count, Trained: r.p.forecaster.model.Trained}
}

// MissingInput returns which name, pattern or folder of the input matched no file or could not be read at the last scan; "" if each
// did.
func (r *Service) MissingInput() string { return r.missing }

// Skipped lists the initialisations in the files that were read which the last scan skipped by their age, the newest first.
func (r *Service) Skipped() []ensemble.Init { return r.skipped }

// RollingAlarms returns the number of alarms of the rolling verification on the loaded model; 0 without alarms.file.
//
// Errors: those of promote.ReadAlarms.
func (r *Service) RollingAlarms() (int, error) {
	path := string(r.p.forecaster.policy.Alarms.File)
	if path == "" {
		return 0, nil
	}
	a, err := promote.AlarmsOn(path, r.Model().Checksum)
	if a == nil {
		return 0, err
	}
	return len(a.Alarms), nil
}

// Unrelated lists files in input folders that are not input, at the last scan.
func (r *Service) Unrelated() []input.UnrelatedFile { return r.p.finder.unrelated }

// PollInterval is the time between scans.
func (r *Service) PollInterval() time.Duration { return cmp.Or(r.p.policy.Members.Poll, defaultPoll) }

// pauseTime is the current time of pauses between attempts.
func (r *Service) pauseTime() time.Time { return r.options.Clock.Pauses.Now() }

// Close frees the model and saves the kernel timings.
func (r *Service) Close() {
	r.p.options.Timings.Save(r.p.forecaster.engine.Timings)
	r.p.close()
}

// Scan scans the input. It returns the initialisations found, the newest first, and the files whose
// initialisation is unknown. A file is read when it is new or has changed; an initialisation is assessed when
// its files changed.
//
// Initialisations before oldest are skipped (Skipped). Files unchanged since then are not read at all, as a forecast is
// not written before its initialisation.
//
// Errors: invalid patterns; input of which nothing can be read (exit 66, 74), which leaves what is known of files as it
// is; ctx.Err(). Faults of a file belong to its candidates.
func (r *Service) Scan(ctx context.Context, oldest time.Time) ([]Candidate, []UnreadableFile, error) {
	files, missing := r.p.finder.list()
	if missing != nil && (exit.CodeOf(missing) == exit.Usage || len(files) == 0 && fio.IsUnreadable(missing)) {
		return nil, nil, missing
	}
	if r.missing = ""; missing != nil {
		r.missing = exit.OneLine(missing)
	}
	if !oldest.IsZero() {
		files = changedSince(files, oldest.Add(-r.p.policy.Members.Lagged.MaxAge))
	}
	byInit, unreadable, err := r.byInit(ctx, files)
	if err != nil {
		return nil, nil, err
	}
	if age := r.p.policy.Members.Lagged.MaxAge; age > 0 {
		joinLagged(byInit, age)
	}
	maps.DeleteFunc(r.inits, func(i ensemble.Init, _ *watcher) bool { return byInit[i] == nil })
	r.skipped = nil
	var out []Candidate
	for _, init := range slices.SortedFunc(maps.Keys(byInit), func(a, b ensemble.Init) int { return b.Compare(a.Time) }) {
		if init.Before(oldest) {
			r.skipped = append(r.skipped, init)
			continue
		}
		c, err := r.decide(ctx, init, byInit[init])
		if err != nil {
			return nil, nil, err
		}
		out = append(out, c)
	}
	return out, unreadable, nil
}

// byInit finds the files of each initialisation, and those whose initialisation is unknown.
//
// Errors: ctx.Err().
func (r *Service) byInit(ctx context.Context, files []string) (map[ensemble.Init]*initFiles, []UnreadableFile, error) {
	complete, pending := r.files.classify(files)
	maps.DeleteFunc(r.contents, func(path string, _ fileContent) bool { _, there := r.files.states[path]; return !there })
	var unreadable []UnreadableFile
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
			unreadable = append(unreadable, UnreadableFile{path, exit.OneLine(s.err)})
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
			unreadable = append(unreadable, UnreadableFile{w.path, w.reason})
		}
	}
	slices.SortFunc(unreadable, func(a, b UnreadableFile) int { return strings.Compare(a.Path, b.Path) })
	return byInit, unreadable, nil
}

// changedSince drops files that arrived before a time and have not changed since.
func changedSince(files []string, t time.Time) []string {
	return slices.DeleteFunc(files, func(path string) bool {
		at := fingerprint.ChangeTime(path)
		return !at.IsZero() && at.Before(t)
	})
}

// initFiles are the files of an initialisation.
type initFiles struct {
	complete map[string]fingerprint.File
	pending  []pendingFile
}

// arriving names a file that is still being written if no file is complete: without any that could be used the deadline decides
// nothing. It is "" otherwise.
func (h *initFiles) arriving() string {
	i := slices.IndexFunc(h.pending, func(f pendingFile) bool { return f.changing })
	if len(h.complete) > 0 || i < 0 {
		return ""
	}
	return h.pending[i].path + ": " + h.pending[i].reason
}

// firstArrival is the arrival of the first file: the last change of its name or content on this file system. Copies
// that preserve modification times do not hide it.
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

// joinLagged adds to each initialisation the files of earlier ones that belong to its lagged ensemble.
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

// readInits reads the initialisations of a file, unless it is unchanged. An unchanged file that could not be read
// for another reason than its bytes is read again.
//
// Errors: ctx.Err().
func (r *Service) readInits(ctx context.Context, path string, mark fingerprint.File) error {
	s, ok := r.contents[path]
	switch {
	case !ok || !s.mark.IsSameContent(mark):
		s = fileContent{mark: mark}
	case s.err == nil || isContentFault(s.err) || !s.retry.isDue(r.pauseTime()):
		return nil
	}
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: r.p.pool, SkipBad: true, Sparse: r.p.options.Policy.AllowMissingChunks,
		Members: input.LayoutOf(r.p.policy.Members.MemberLayout), Cache: string(r.p.options.Policy.IndexCache), Naming: r.p.naming(), Keep: r.p.policy.isCandidate})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.err = err
	if err == nil {
		s.inits = (&ensemble.Catalogue{Entries: in.Catalogue().Select(r.p.policy.isCandidate)}).Inits()
		if damage := in.Damage(); s.inits == nil && len(damage) > 0 {
			s.err = damage[0]
		}
		in.Close()
	}
	if s.err != nil && !isContentFault(s.err) {
		s.retry.fail(r.pauseTime(), r.PollInterval())
	}
	r.contents[path] = s
	return nil
}

// decide decides whether an initialisation is due.
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
	if c.Deadline, err = r.deadline(init, c.Since); err != nil {
		return c, err
	}
	slices.SortFunc(h.pending, func(a, b pendingFile) int { return strings.Compare(a.path, b.path) })
	if e := r.p.options.Clock.futureError(init); e != nil {
		c.Due, c.err, c.State = true, e, "future"
		return c, nil
	}
	last := !c.Deadline.IsZero() && !r.p.options.Clock.Now().Before(c.Deadline) && h.arriving() == ""
	v.deadline = c.Deadline
	s, err := v.decide(ctx, h.complete, h.pending, nil, last)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	c.Due, c.err, c.files, c.leftOut = s.Done, err, s.Files, s.LeftOut
	if !s.Done {
		c.Missing = cmp.Or(h.arriving(), v.lastReport, "its first files")
	}
	c.State = fileSetState(h.complete, s.LeftOut)
	return c, nil
}

// deadline returns the end of waiting for an initialisation whose first file arrived at since.
func (r *Service) deadline(init ensemble.Init, since time.Time) (end time.Time, err error) {
	m := r.p.policy.Members
	if m.Deadline != "" {
		if end, err = m.Deadline.Time(init.Time, since); err != nil {
			return end, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid deadline %q", m.Deadline), At: "members.deadline", Fix: "write it as init+6h40m, 06:40Z or +40m", Err: err}
		}
	}
	if m.Wait > 0 {
		if w := since.Add(m.Wait); end.IsZero() || w.Before(end) {
			end = w
		}
	}
	return end, nil
}

// fileSetState returns a hash of the states of an initialisation's files.
func fileSetState(complete map[string]fingerprint.File, left []string) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, path := range slices.Sorted(maps.Keys(complete)) {
		_ = enc.Encode(path) // writing to a hash never fails
		_ = enc.Encode(complete[path])
	}
	_ = enc.Encode(left)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Issue publishes an initialisation that is due, as [Run] would. shown receives its map example, unless nil
// or unless identical products exist.
//
// Errors: those of Run; for an initialisation that failed, why.
func (r *Service) Issue(ctx context.Context, c Candidate, shown func(*scoring.MapExample)) (*Result, error) {
	if c.err != nil {
		return nil, c.err
	}
	layout := "2006010215"
	if c.Init.UTC().Minute() != 0 {
		layout = "2006-01-02T15:04Z"
	}
	command := strings.TrimSpace(r.p.options.Command + " --init " + c.Init.UTC().Format(layout))
	r.p.forecaster.readAlarms()
	return r.p.predict(ctx, team.Teams{}, inputFiles{files: c.files, leftOut: c.leftOut, init: c.Init.Time, command: command, accepted: c.Accepted, deadline: r.lockDeadline, onExample: shown})
}
