package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// stateDir is the subdirectory of the product directory that keeps the statistics of the latest members,
// the list of initialisations and the decisions of operators across restarts of the service.
const stateDir = product.StateDir

// maxRetryDelay is the largest delay between attempts for an initialisation.
const maxRetryDelay = time.Hour

// issuer watches the input and publishes products. It runs on one goroutine.
type issuer struct {
	*state
	log        *slog.Logger
	signals    Signals
	o          Options
	resident   *predict.Service
	attempts   map[ensemble.Init]*attempt
	reported   reported
	savedInits []InitStatus // last list that was written for Decide
}

// reported is what was logged, so that it is logged once.
type reported struct {
	late                       map[string]bool // initialisations that were late at the last poll
	unscheduled                map[string]bool // contradictions of input and schedule
	skipped                    map[string]bool // initialisations older than serve.max_age
	missing, decisions, alarms string          // last reason for incomplete input; last error of reading decisions and alarms
	pruned                     string          // last error of the list of pruned initialisations
}

// attempt is the result of publishing an initialisation from one state of its input files.
type attempt struct {
	inputState string // identifies the state of the input files
	count      int
	done       bool                 // products exist
	other      *product.OtherSource // they are of other sources, and stay; nil otherwise
	decided    time.Time            // of the decision that it follows
	next       time.Time            // of the next attempt, by the monotonic clock
	err        error
}

// revision identifies what operators decide about after an attempt: a source for which products are kept, or a failure.
func (t *attempt) revision() string {
	if t.other != nil {
		return t.other.Wanted
	}
	return fmt.Sprintf("%s E%03d", t.inputState, int(exit.CodeOf(t.err)))
}

// run publishes products until ctx ends.
//
// Errors: those of predict.OpenService at the start; ctx.Err().
func (u *issuer) run(ctx context.Context) (err error) {
	if u.resident, err = u.open(u.o); err != nil {
		return err
	}
	defer func() { u.resident.Close() }()
	u.attempts = map[ensemble.Init]*attempt{}
	u.reported.unscheduled, u.reported.skipped = map[string]bool{}, map[string]bool{}
	u.restoreMembers()
	var hooks sync.WaitGroup
	defer hooks.Wait()
	hooked, stop := context.WithCancel(ctx)
	defer stop() // also after a panic, before the wait
	hooks.Go(func() { u.hook.Run(hooked) })
	notify("READY=1\nSTATUS=the model is ready")
	for {
		u.markProgress()
		u.reopen()
		err := u.poll(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			u.keepFound(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.signals.Reload:
			u.reload()
		case <-u.pauses().After(u.resident.PollInterval()):
		}
	}
}

// pauses is the clock of pauses between scans and attempts.
func (u *issuer) pauses() backoff.Clock { return u.o.Predict.Clock.Pauses }

// open loads the model.
func (u *issuer) open(o Options) (*predict.Service, error) {
	begun := time.Now()
	o.Predict.Clock.MaxFuture = o.Service.MaxFuture
	r, err := predict.OpenService(o.Predict)
	if err != nil {
		return nil, err
	}
	if err := r.LocalFault(); err != nil {
		u.logUnopened(err)
	}
	u.loaded(r.Model(), o, begun)
	return r, nil
}

// loaded records the loaded model.
func (u *issuer) loaded(m predict.ModelDescription, o Options, begun time.Time) {
	u.change(func() { u.model = &m })
	u.metrics.model.loaded(m)
	u.log.Info("the model is ready", "run_dir", o.Predict.RunDir, "checksum", m.Checksum, "seconds", seconds(begun))
}

// logUnopened logs why the fallback replaces the network.
func (u *issuer) logUnopened(err error) {
	u.log.Warn("the network cannot be opened and is tried again later; the fallback replaces it", "error", exit.OneLine(err), "fix", remedy(err))
}

// reopen opens the network again if that failed for a local reason and the pause is over. Products of the fallback stay.
func (u *issuer) reopen() {
	begun := time.Now()
	r, err := u.resident.Reopen()
	if err != nil {
		u.logUnopened(err)
	}
	if r == nil {
		return
	}
	u.resident.Close()
	u.resident = r
	u.loaded(r.Model(), u.o, begun)
}

// restoreMembers finds the initialisation whose members' statistics an earlier process kept.
func (u *issuer) restoreMembers() {
	dir := filepath.Join(u.o.Predict.Out, stateDir)
	if err := errors.Join(atomicfile.RemoveTemporary(filepath.Join(dir, "report")), atomicfile.RemoveTemporary(dir)); err != nil { // of a killed service
		u.log.Warn("cannot remove temporary files", "error", exit.OneLine(err))
	}
	e, err := scoring.LoadExample(dir)
	if err != nil {
		u.log.Warn("cannot read the statistics of the members for maps", "error", exit.OneLine(err))
	}
	if e != nil {
		u.change(func() { u.membersOf = e.Init })
	}
}

// keepMembers saves the statistics of the members that products were made from, unless those of a newer initialisation are
// kept.
func (u *issuer) keepMembers(e *scoring.MapExample, log *slog.Logger) {
	if e == nil || e.Init.Before(u.membersOf.Time) && u.isShown(u.membersOf) { // only this goroutine writes membersOf
		return
	}
	if err := e.Save(filepath.Join(u.o.Predict.Out, stateDir)); err != nil {
		log.Warn("cannot save the statistics of the members for maps", "error", exit.OneLine(err))
		return
	}
	u.change(func() { u.membersOf, u.membersSaved = e.Init, u.membersSaved+1 })
}

// reload loads the configuration again. If it is valid, its options and model replace the current
// ones; else the service continues unchanged.
func (u *issuer) reload() {
	notify("RELOADING=1\nSTATUS=reading the configuration again")
	status := "the model is ready"
	defer func() { notify("READY=1\nSTATUS=" + status) }()
	o, err := u.signals.Load()
	if err == nil && o.Predict.Out != u.o.Predict.Out {
		err = &exit.Error{Code: exit.Usage, What: "the product directory cannot change on reload", At: string(o.Predict.Out), Fix: "restart the service"}
	}
	var r *predict.Service
	if err == nil {
		r, err = u.open(o)
	}
	if err == nil {
		if err = u.hook.Configure(o.Service.OnIssue, o.Service.RetryDelay); err != nil {
			r.Close()
		}
	}
	if err != nil {
		u.metrics.reloads.add(1, "rejected")
		status += "; the new configuration was rejected, see the log"
		u.log.Error("the configuration was rejected, the previous one remains", "error", exit.OneLine(err), "fix", remedy(err))
		return
	}
	for _, fixed := range []struct {
		key      string
		old, new any
	}{{"serve.listen", u.o.Service.Listen, o.Service.Listen}, {"serve.max_connections", u.o.Service.MaxConnections, o.Service.MaxConnections},
		{"serve.max_connections_per_address", u.o.Service.MaxConnectionsPerAddress, o.Service.MaxConnectionsPerAddress}, {"serve.rate_limit", u.o.Service.RateLimit, o.Service.RateLimit}, {"serve.queries", u.o.Service.Queries, o.Service.Queries}} {
		if fmt.Sprint(fixed.old) != fmt.Sprint(fixed.new) {
			u.log.Warn("a changed key takes effect after a restart", "key", fixed.key)
		}
	}
	u.resident.Close()
	u.resident, u.o = r, o
	clear(u.attempts)
	u.change(func() { u.options = o })
	u.metrics.reloads.add(1, "applied")
	u.log.Info("the configuration was reloaded")
}

// poll scans the input and publishes the initialisations that are due, the newest first. It scans
// again in between, because a newer one may have arrived.
func (u *issuer) poll(ctx context.Context) error {
	for {
		var oldest time.Time
		if age := u.o.Service.MaxAge; age > 0 {
			oldest = u.now().Add(-age)
		}
		u.updateDecisions()
		starts, unread, err := u.resident.Scan(ctx, oldest)
		if err != nil {
			return err
		}
		u.dropRemoved(starts)
		u.updatePruned(starts)
		u.updateStarts(starts, unread)
		u.logMissing()
		u.logUnscheduled(starts)
		u.updateAlarms()
		u.removeDecisions()
		looked, again := u.pauses().Now(), false
		for _, c := range starts {
			if !u.isDue(c) {
				continue
			}
			if again = u.pauses().Now().Sub(looked) > u.resident.PollInterval(); again || len(u.signals.Reload) > 0 {
				break
			}
			u.attemptInit(ctx, c)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			u.updateStarts(starts, unread)
		}
		u.logLate() // after the attempts: one whose turn was next is late no more
		if !again {
			return nil
		}
	}
}

// keepFound keeps what is known of the input, with the reason for which the last scan could read nothing of it.
func (u *issuer) keepFound(err error) {
	now := u.found // only this goroutine writes it
	now.missingInput, now.unscanned = exit.OneLine(err), true
	if now.missingInput != u.reported.missing {
		u.reported.missing = now.missingInput
		u.log.Error("cannot scan the input", "error", now.missingInput, "fix", remedy(err))
	}
	u.change(func() { u.found = now })
	u.logLate()
	u.saveInits()
}

// logMissing logs why the input is incomplete, when that changes.
func (u *issuer) logMissing() {
	if why := u.resident.MissingInput(); why != u.reported.missing {
		if u.reported.missing = why; why != "" {
			u.log.Warn("waiting for input", "why", why)
		}
	}
}

// updateAlarms counts the alarms of the rolling verification.
func (u *issuer) updateAlarms() {
	n, err := u.resident.RollingAlarms()
	if err != nil {
		if text := exit.OneLine(err); text != u.reported.alarms {
			u.reported.alarms = text
			u.log.Warn("cannot read the alarms of the rolling verification", "error", text)
		}
		return
	}
	u.reported.alarms = ""
	u.metrics.model.alarms.set(float64(n))
}

// logLate logs each initialisation that has become late.
func (u *issuer) logLate() {
	now := map[string]bool{}
	for _, i := range u.statuses() {
		if i.State != late {
			continue
		}
		if now[i.Name] = true; !u.reported.late[i.Name] {
			u.log.Warn("an initialisation is late", "init", i.Name, "expected_by", i.ExpectedBy.Format(time.RFC3339), "why", i.Why)
		}
	}
	u.reported.late = now
}

// logUnscheduled logs each hour of initialisation that the schedule lacks, once.
func (u *issuer) logUnscheduled(starts []predict.Candidate) {
	for _, c := range starts {
		why := u.o.Service.Schedule.Contradicts(c.Init.Time)
		if why == "" || u.reported.unscheduled[why] {
			continue
		}
		u.reported.unscheduled[why] = true
		u.log.Warn("an initialisation is not in the schedule", "init", product.InitName(c.Init), "why", why, "fix", "add its hour to serve.schedule.cycles, or leave its files out of the input")
	}
}

// dropRemoved deletes the attempts of initialisations that are no longer in the input.
func (u *issuer) dropRemoved(starts []predict.Candidate) {
	maps.DeleteFunc(u.attempts, func(i ensemble.Init, _ *attempt) bool {
		return !slices.ContainsFunc(starts, func(c predict.Candidate) bool { return c.Init == i })
	})
}

// isDue reports whether an initialisation must be processed now: its input is complete or its
// deadline has passed, its retry delay is over or an operator decided so, and it was not pruned.
func (u *issuer) isDue(c predict.Candidate) bool {
	if !c.Due || u.isPruned(product.InitName(c.Init)) {
		return false
	}
	t := u.attempts[c.Init]
	if t == nil || t.inputState != c.State {
		return true
	}
	if d := u.decision(product.InitName(c.Init), t.revision()); (d.Action == Accept || d.Action == Retry) && !d.Time.Equal(t.decided) {
		return true
	}
	return !t.done && !t.next.IsZero() && !u.pauses().Now().Before(t.next)
}

// attemptInit publishes an initialisation. If that fails for another reason than its files or the
// configuration, it schedules the next attempt: after serve.retry_delay · 2ⁿ⁻¹ for attempt n, at most
// maxRetryDelay.
func (u *issuer) attemptInit(ctx context.Context, c predict.Candidate) {
	t := u.attempts[c.Init]
	if t == nil || t.inputState != c.State {
		t = &attempt{inputState: c.State}
		u.attempts[c.Init] = t
	}
	t.count++
	t.decided = u.follow(&c)
	u.markProgress()
	begun := time.Now()
	u.hook.Issuing(product.InitName(c.Init))
	var shown *scoring.MapExample
	res, err := u.issue(ctx, c, func(e *scoring.MapExample) { shown = e })
	if ctx.Err() != nil {
		return // interrupted, not failed
	}
	log := u.log.With("init", product.InitName(c.Init), "attempt", t.count, "seconds", seconds(begun))
	if t.other = nil; errors.As(err, &t.other) {
		u.logKept(log, c, t)
		res, err = &predict.Result{Existing: 1}, nil
	}
	if t.err = err; err != nil {
		code := exit.CodeOf(err)
		t.done, t.next = false, time.Time{}
		if isTransient(code) {
			t.next = u.pauses().Now().Add(backoff.Delay(u.o.Service.RetryDelay, maxRetryDelay, t.count))
		}
		u.metrics.failures.add(1, fmt.Sprint(int(code)))
		log.Error("an initialisation failed", "code", int(code), "error", exit.OneLine(err), "fix", remedy(err), "next_attempt", formatRetryTime(t.next))
		return
	}
	t.done, t.next = true, time.Time{}
	name := product.InitName(c.Init)
	m, err := u.tree.find(name)
	if err != nil {
		log.Error("cannot read the published products", "error", err.Error())
		return
	}
	u.metrics.issued(m, res, begun, u.now())
	u.hook.Issued(name)
	for _, w := range res.Warnings {
		log.Warn("a product has a warning", "warning", w)
	}
	log.Info("issued", "existing", res.Existing > 0, "degraded", res.Degraded > 0, "members", len(m.manifest.MembersUsed), "complete", m.manifest.MembersComplete, "expected", m.manifest.MembersExpected, "missing", ensemble.MemberRanges(m.missing()), "files", len(m.manifest.Outputs))
	u.keepMembers(shown, log)
}

// follow applies an operator's decision to a candidate, and returns its time; zero without one.
func (u *issuer) follow(c *predict.Candidate) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	d := u.decisions[product.InitName(c.Init)]
	if d.Action == Accept {
		c.Accepted = d.Revision
	}
	return d.Time
}

// logKept logs that existing products stay, and what an operator can do if their input changed.
func (u *issuer) logKept(log *slog.Logger, c predict.Candidate, t *attempt) {
	s := InitStatus{Name: product.InitName(c.Init)}
	u.keptStatus(t, &s)
	if !s.InputChanged {
		log.Info("existing products are kept", "why", s.Why)
		return
	}
	out := u.o.Predict.Out
	log.Warn("existing products are kept", "why", s.Why, "fix", fmt.Sprintf("`ensemble products accept %s --out %s` replaces them, `ensemble products dismiss %s --out %s` leaves them", s.Name, out, s.Name, out))
}

// issue publishes an initialisation. A panic fails the attempt, not the service; the model is then
// loaded again.
func (u *issuer) issue(ctx context.Context, c predict.Candidate, shown func(*scoring.MapExample)) (res *predict.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		u.log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		err = &exit.Error{Code: exit.Bug, What: fmt.Sprintf("internal error: %v", p), Why: "a bug in the program", Fix: "report it with the log"}
		if r, oerr := u.open(u.o); oerr == nil {
			u.resident = r // the old one may be inconsistent and is not closed
		}
	}()
	return u.resident.Issue(ctx, c, shown)
}

// isTransient reports whether a retry with the same files and configuration may succeed.
func isTransient(code exit.Code) bool { return code != exit.Usage && code != exit.BadData }

// isInputFault reports whether an attempt failed because of its input: other files may succeed.
func isInputFault(err error) bool {
	code := exit.CodeOf(err)
	return code == exit.BadData || code == exit.NotYet
}

// updateStarts updates what is known of the input, and the status of all initialisations in it.
func (u *issuer) updateStarts(starts []predict.Candidate, unread []predict.UnreadableFile) {
	ignored := u.resident.Unrelated()
	now := found{unread: unread, ignored: ignored[:min(len(ignored), maxIgnored)], ignoredCount: len(ignored), missingInput: u.resident.MissingInput()}
	for _, c := range starts {
		now.inits = append(now.inits, u.statusOf(c))
	}
	now.inits = append(now.inits, u.skippedStatuses()...)
	u.metrics.unread.set(float64(len(unread)))
	if !reflect.DeepEqual(now, u.found) { // only this goroutine writes it
		u.change(func() { u.found = now })
	}
	u.saveInits()
}

// remedy is the fix of an error; "" if it has none.
func remedy(err error) string {
	var e *exit.Error
	if errors.As(err, &e) {
		return e.Fix
	}
	return ""
}

// seconds is the time since a moment in seconds, to the millisecond.
func seconds(since time.Time) float64 {
	return float64(time.Since(since).Round(time.Millisecond)) / float64(time.Second)
}

// formatRetryTime formats the time of the next attempt for the log; "no" if there is none.
func formatRetryTime(t time.Time) string {
	if t.IsZero() {
		return "no"
	}
	return t.UTC().Format(time.RFC3339)
}
