package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/io/product"
)

// stateDir keeps, in the root of the products, what the page shows of the last start, for the
// next start of the program.
const stateDir = ".serve"

// maxRetryDelay bounds the pauses between tries of a start.
const maxRetryDelay = time.Hour

// issuer watches the input and issues.
type issuer struct {
	*state
	log             *slog.Logger
	signals         Signals
	o               Options
	resident        *predict.Service
	attempts        map[ensemble.Init]*attempt
	reportedMissing string                   // of the input, as it was said last
	displayedInit   ensemble.Init            // the start that the page shows, or will
	toDraw          chan *scoring.MapExample // holds one
}

// attempt is what came of a start in one state of its files.
type attempt struct {
	inputState string // of its files
	count      int
	done       bool // issued
	next       time.Time
	err        error
}

// run issues until ctx ends.
//
// Errors: those of predict.OpenService when it begins; ctx.Err().
func (u *issuer) run(ctx context.Context) (err error) {
	if u.resident, err = u.open(u.o); err != nil {
		return err
	}
	defer func() { u.resident.Close() }()
	u.attempts, u.toDraw = map[ensemble.Init]*attempt{}, make(chan *scoring.MapExample, 1)
	var drawing sync.WaitGroup
	defer drawing.Wait()
	drawing.Go(func() { u.drawLoop(ctx) })
	u.restoreLastMaps()
	notify("READY=1\nSTATUS=the model is ready")
	for {
		u.markProgress()
		err := u.poll(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			u.log.Error("the input cannot be looked at", "error", exit.OneLine(err))
		}
		pause := time.NewTimer(u.resident.PollInterval())
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-u.signals.Reload:
			pause.Stop()
			u.reload()
		case <-pause.C:
		}
	}
}

// open makes a model ready.
func (u *issuer) open(o Options) (*predict.Service, error) {
	begun := time.Now()
	r, err := predict.OpenService(o.Predict)
	if err != nil {
		return nil, err
	}
	m := r.Model()
	u.change(func() { u.model = &m })
	u.metrics.model(m)
	u.log.Info("the model is ready", "run_dir", o.Predict.RunDir, "checksum", m.Checksum, "seconds", seconds(begun))
	return r, nil
}

// restoreLastMaps shows the last start that an earlier program issued.
func (u *issuer) restoreLastMaps() {
	e, err := scoring.LoadExample(filepath.Join(u.o.Predict.Out, stateDir))
	if err != nil {
		u.log.Warn("the last maps cannot be read", "error", exit.OneLine(err))
	}
	if e != nil {
		u.displayedInit = e.Init
		u.draw(e)
	}
}

// draw has the page show a start, once its maps are drawn; of several the last one.
func (u *issuer) draw(e *scoring.MapExample) {
	select {
	case <-u.toDraw: // an older one that nobody will see
	default:
	}
	u.toDraw <- e
}

// drawPauseFactor is how much longer than it draws the drawing rests, so that many starts in a row leave the
// processor to readers and to issuing.
const drawPauseFactor = 10

// drawLoop draws maps beside the issuing.
func (u *issuer) drawLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-u.toDraw:
			begun := time.Now()
			m, err := drawMaps(ctx, e)
			if err != nil && ctx.Err() == nil {
				u.log.Error("maps cannot be drawn", "error", exit.OneLine(err))
			}
			if err == nil {
				u.change(func() { u.maps = m })
			}
			rest := time.NewTimer(drawPauseFactor * time.Since(begun))
			select {
			case <-ctx.Done():
				rest.Stop()
			case <-rest.C:
			}
		}
	}
}

// reload takes new options, if they are sound, and the model that they name.
func (u *issuer) reload() {
	notify("RELOADING=1\nSTATUS=reading the configuration again")
	status := "the model is ready"
	defer func() { notify("READY=1\nSTATUS=" + status) }()
	o, err := u.signals.Load()
	if err == nil && o.Predict.Out != u.o.Predict.Out {
		err = &exit.Error{Code: exit.Usage, What: "the folder of the products differs", At: string(o.Predict.Out), Fix: "start the service anew"}
	}
	var r *predict.Service
	if err == nil {
		r, err = u.open(o)
	}
	if err != nil {
		u.metrics.reloads.add(1, "rejected")
		status += ", as before: the configuration that is there now was not taken, the log says why"
		u.log.Error("the configuration was not taken: the one before stays", "error", exit.OneLine(err), "fix", remedy(err))
		return
	}
	for _, fixed := range []struct {
		key      string
		old, new any
	}{{"serve.listen", u.o.Service.Listen, o.Service.Listen}, {"serve.max_connections", u.o.Service.MaxConnections, o.Service.MaxConnections},
		{"serve.max_connections_per_address", u.o.Service.MaxConnectionsPerAddress, o.Service.MaxConnectionsPerAddress}, {"serve.rate_limit", u.o.Service.RateLimit, o.Service.RateLimit}} {
		if fmt.Sprint(fixed.old) != fmt.Sprint(fixed.new) {
			u.log.Warn("stays as it is until the service is started anew", "key", fixed.key)
		}
	}
	u.resident.Close()
	u.resident, u.o = r, o
	clear(u.attempts)
	u.change(func() { u.options = o })
	u.metrics.reloads.add(1, "applied")
	u.log.Info("the configuration was taken")
}

// poll looks at the input and issues what is due, the newest start first. It looks again
// in between, since a newer one may have come.
func (u *issuer) poll(ctx context.Context) error {
	for {
		var oldest time.Time
		if age := u.o.Service.MaxAge; age > 0 {
			oldest = time.Now().Add(-age)
		}
		starts, unread, err := u.resident.Scan(ctx, oldest)
		if err != nil {
			return err
		}
		u.dropRemoved(starts)
		lacked := u.reportedMissing
		u.reportedMissing = u.resident.MissingInput()
		u.updateStarts(starts, unread)
		if u.reportedMissing != lacked && u.reportedMissing != "" {
			u.log.Warn("waiting for input", "why", u.reportedMissing)
		}
		looked, again := time.Now(), false
		for _, c := range starts {
			if !u.isDue(c) {
				continue
			}
			if again = time.Since(looked) > u.resident.PollInterval(); again || len(u.signals.Reload) > 0 {
				break
			}
			u.attemptInit(ctx, c)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			u.updateStarts(starts, unread)
		}
		if !again {
			return nil
		}
	}
}

// dropRemoved drops what is known of starts that the input no longer has.
func (u *issuer) dropRemoved(starts []predict.Candidate) {
	maps.DeleteFunc(u.attempts, func(i ensemble.Init, _ *attempt) bool {
		return !slices.ContainsFunc(starts, func(c predict.Candidate) bool { return c.Init == i })
	})
}

// isDue tells whether a start is to be tried now.
func (u *issuer) isDue(c predict.Candidate) bool {
	if !c.Due {
		return false
	}
	t := u.attempts[c.Init]
	if t == nil || t.inputState != c.State {
		return true
	}
	return !t.done && t.count < u.o.Service.MaxAttempts && !t.next.IsZero() && !time.Now().Before(t.next)
}

// attemptInit issues a start, and decides when it is tried again if that fails.
func (u *issuer) attemptInit(ctx context.Context, c predict.Candidate) {
	t := u.attempts[c.Init]
	if t == nil || t.inputState != c.State {
		t = &attempt{inputState: c.State}
		u.attempts[c.Init] = t
	}
	t.count++
	u.markProgress()
	begun := time.Now()
	var shown *scoring.MapExample
	res, err := u.issue(ctx, c, func(e *scoring.MapExample) { shown = e })
	if ctx.Err() != nil {
		return // told to stop: nothing is wrong with it
	}
	log := u.log.With("init", product.InitName(c.Init), "attempt", t.count, "seconds", seconds(begun))
	if errors.Is(err, product.ErrOtherModel) { // of before another one was promoted, or the program was installed anew
		log.Info("products of another model or version stay")
		res, err = &predict.Result{Existing: 1}, nil
	}
	if t.err = err; err != nil {
		code := exit.CodeOf(err)
		t.next = time.Time{}
		if (isTransient(code) || errors.Is(err, lease.ErrHeld)) && t.count < u.o.Service.MaxAttempts {
			t.next = time.Now().Add(min(u.o.Service.RetryDelay<<(t.count-1), maxRetryDelay))
		}
		u.metrics.failures.add(1, fmt.Sprint(int(code)))
		log.Error("a start failed", "code", int(code), "error", exit.OneLine(err), "fix", remedy(err), "next_attempt", formatRetryTime(t.next))
		return
	}
	t.done, t.next = true, time.Time{}
	name := product.InitName(c.Init)
	m, err := u.tree.find(name)
	if err != nil {
		log.Error("what was issued cannot be read", "error", err.Error())
		return
	}
	u.metrics.issued(m, res, begun)
	for _, w := range res.Warnings {
		log.Warn("a product has a warning", "warning", w)
	}
	log.Info("issued", "existing", res.Existing > 0, "degraded", res.Degraded > 0, "members", len(m.manifest.MembersUsed), "expected", m.manifest.MembersExpected, "files", len(m.manifest.Outputs))
	if shown == nil {
		u.change(func() {})
		return
	}
	if shown.Init.Before(u.displayedInit.Time) {
		return // an older one, late
	}
	u.displayedInit = shown.Init
	if err := shown.Save(filepath.Join(u.o.Predict.Out, stateDir)); err != nil {
		log.Warn("the maps are not kept for the next start of the program", "error", exit.OneLine(err))
	}
	u.draw(shown)
}

// issue issues a start. A bug that shows itself ends the try and not the service, which gets a
// new model.
func (u *issuer) issue(ctx context.Context, c predict.Candidate, shown func(*scoring.MapExample)) (res *predict.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		u.log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		err = &exit.Error{Code: exit.Bug, What: fmt.Sprintf("internal error: %v", p), Why: "a bug in the program", Fix: "report it with the log"}
		if r, oerr := u.open(u.o); oerr == nil {
			u.resident = r // what the old one holds may be inconsistent: it is not even closed
		}
	}()
	return u.resident.Issue(ctx, c, shown)
}

// isTransient tells failures that another try may cure, with the same files.
func isTransient(code exit.Code) bool {
	switch code {
	case exit.Usage, exit.BadData, exit.CannotWrite:
		return false
	}
	return true
}

// updateStarts says what becomes of the starts.
func (u *issuer) updateStarts(starts []predict.Candidate, unread []predict.UnreadableFile) {
	var list []InitStatus
	n := map[string]int{}
	for _, c := range starts {
		s := InitStatus{Name: product.InitName(c.Init), State: waiting, Since: c.Since.UTC(), Why: c.Missing}
		if !c.Deadline.IsZero() {
			d := c.Deadline.UTC()
			s.Deadline = &d
		}
		t := u.attempts[c.Init]
		switch {
		case t != nil && t.inputState == c.State && t.err != nil:
			s.State, s.Why, s.Attempts = failed, exit.OneLine(t.err), t.count
			if !t.next.IsZero() {
				next := t.next.UTC()
				s.NextAttempt = &next
			}
		case t != nil && t.inputState == c.State && t.done:
			s.State = issued
		case c.Due:
			s.State = due
		}
		n[s.State]++
		list = append(list, s)
	}
	u.metrics.queue(n, len(unread))
	u.mu.Lock()
	aside := u.resident.Unrelated()
	some := aside[:min(len(aside), maxIgnored)]
	same := fmt.Sprint(list, unread, some, u.reportedMissing) == fmt.Sprint(u.inits, u.unread, u.ignored, u.missingInput) && u.ignoredCount == len(aside)
	u.mu.Unlock()
	if !same {
		u.change(func() {
			u.inits, u.unread, u.ignored, u.ignoredCount, u.missingInput = list, unread, some, len(aside), u.reportedMissing
		})
	}
}

// remedy is what to do about an error, "" where that is not known.
func remedy(err error) string {
	var e *exit.Error
	if errors.As(err, &e) {
		return e.Fix
	}
	return ""
}

func seconds(since time.Time) float64 {
	return float64(time.Since(since).Round(time.Millisecond)) / float64(time.Second)
}

// formatRetryTime is a time for a log, "no" for none.
func formatRetryTime(t time.Time) string {
	if t.IsZero() {
		return "no"
	}
	return t.UTC().Format(time.RFC3339)
}
