package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// defaultPoll is the default time between scans.
const defaultPoll = 5 * time.Second

// shortestPause is the least time between two looks at a file that show whether it grows, also behind the deadline.
const shortestPause = 200 * time.Millisecond

// scanResult is the result of one scan of the input.
type scanResult struct {
	Files   []string // complete files, or at the deadline the files to use
	LeftOut []string // files left out at the deadline, with reasons
	Done    bool
}

// watcher waits for the input, or for that of one initialisation.
type watcher struct {
	policy  *inputPolicy
	now     func() time.Time
	pauses  backoff.Clock
	files   *fileScanner
	onWarn  func(string) // nil drops warnings
	list    func() ([]string, error)
	missing func(ctx context.Context, files []string, cycle time.Time) error // checks files for expected fields that are missing

	deadline time.Time // zero: no waiting
	poll     time.Duration
	init     time.Time // the only initialisation requested; zero: all
	single   bool      // the input has several initialisations: files of others may be incomplete

	began      bool
	inventory  inventoryCheck
	lastReport string // text of the last warning
}

// inventoryCheck is the last check of what complete files miss of the expected fields.
type inventoryCheck struct {
	files map[string]fingerprint.File
	err   error      // what they miss
	retry retryTimer // next check of unchanged files, if err is no fault of their bytes
	ended bool       // the deadline has passed
}

// newWatcher returns a watcher for the input of a prediction.
func newWatcher(p *prediction) *watcher {
	return &watcher{policy: p.policy, now: p.options.Clock.Now, pauses: p.options.Clock.Pauses, files: newFileScanner(p), onWarn: p.options.Warn, list: p.finder.list, missing: p.missingFields, poll: cmp.Or(p.policy.Members.Poll, defaultPoll)}
}

// scan scans the input once; scans after the first follow a pause. If the deadline has passed before the first one, a second one shows
// whether new files grow.
func (v *watcher) scan(ctx context.Context) (s scanResult, err error) {
	if v.deadline.IsZero() {
		s.Done = true
		s.Files, err = v.list()
		return s, err
	}
	if v.began {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-v.pauses.After(min(v.poll, max(shortestPause, v.deadline.Sub(v.now())))):
		}
	}
	first := !v.began
	v.began = true
	passed := !v.now().Before(v.deadline)
	files, missing := v.list()
	if missing != nil && exit.CodeOf(missing) != exit.NotYet {
		return s, missing
	}
	complete, pending := v.files.classify(files)
	grows := first && slices.ContainsFunc(pending, func(f pendingFile) bool { return f.changing })
	return v.decide(ctx, complete, pending, missing, passed && !grows)
}

// decide decides on the files of one scan; last at the deadline. missing is the error if a name, pattern or
// folder matches no file.
func (v *watcher) decide(ctx context.Context, complete map[string]fingerprint.File, pending []pendingFile, missing error, last bool) (s scanResult, err error) {
	s.Files = slices.Sorted(maps.Keys(complete))
	all := missing == nil && len(pending) == 0 && len(complete) > 0
	some := v.single && missing == nil && len(complete) > 0 // the expected fields may be in them
	if (all || some || last && len(complete) > 0) && v.mustCheck(complete, last) {
		v.inventory.files, v.inventory.err = complete, v.missing(ctx, s.Files, v.init)
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
		if v.inventory.err != nil && !isContentFault(v.inventory.err) {
			v.inventory.retry.fail(v.pauses.Now(), v.poll)
		}
	}
	v.inventory.ended = v.inventory.ended || last
	if (all || some) && v.inventory.err == nil {
		for _, f := range pending {
			v.warn("ignored, as the other files contain all expected fields: " + f.path + ": " + f.reason)
		}
		s.Done = true
		return s, nil
	}
	if !last {
		v.report(missing, pending)
		return s, nil
	}
	s.Done = true
	return v.finish(s, missing, pending)
}

// mustCheck reports whether the inventory of the complete files must be checked: they changed, or the last check found
// something other than a fault of their bytes and its pause is over, or the deadline has just passed.
func (v *watcher) mustCheck(complete map[string]fingerprint.File, last bool) bool {
	if v.inventory.files == nil || !maps.EqualFunc(complete, v.inventory.files, fingerprint.File.IsSameContent) {
		v.inventory.retry = retryTimer{}
		return true
	}
	return v.inventory.err != nil && !isContentFault(v.inventory.err) && (v.inventory.retry.isDue(v.pauses.Now()) || last && !v.inventory.ended)
}

// finish decides at the deadline.
func (v *watcher) finish(s scanResult, missing error, pending []pendingFile) (scanResult, error) {
	degrades := v.policy.allowsFewer()
	var late []*exit.Error
	damaged := false
	for _, f := range pending {
		if !degrades && !f.changing && f.damaged {
			s.Files, damaged = append(s.Files, f.path), true // reading it reports the damage
			continue
		}
		s.LeftOut = append(s.LeftOut, fmt.Sprintf("left out, not complete at the deadline: %s: %s", f.path, f.reason))
		late = append(late, &exit.Error{Code: exit.NotYet, What: "an input file is not complete at the deadline", At: f.path, Why: f.reason,
			Fix: "run the same command again later"})
	}
	var known *exit.Error
	if errors.As(missing, &known) && (!degrades || len(s.Files) == 0) {
		late = append(late, known)
	}
	if errors.As(v.inventory.err, &known) && !degrades && !damaged && known.Code == exit.NotYet {
		late = append(late, known)
	}
	if len(late) > 0 && (!degrades || len(s.Files) == 0) {
		e := *late[0]
		e.More = slices.Concat(e.More, late[1:min(len(late), humanise.MaxListed)])
		return s, &e
	}
	return s, nil
}

// report warns about what the watcher waits for, when that changes.
func (v *watcher) report(missing error, pending []pendingFile) {
	if !v.deadline.IsZero() && !v.now().Before(v.deadline) { // the scan that follows is the last
		return
	}
	why := ""
	var e *exit.Error
	switch {
	case len(pending) > 0 && (!v.single || v.inventory.err == nil):
		why = pending[0].path + ": " + pending[0].reason
	case errors.As(missing, &e), errors.As(v.inventory.err, &e):
		why = exit.OneLine(&exit.Error{What: e.What, At: e.At})
	}
	if why != v.lastReport {
		v.warn(fmt.Sprintf("waiting until %s: %s", v.deadline.UTC().Format(time.RFC3339), why))
	}
	v.lastReport = why
}

// warn passes a warning on.
func (v *watcher) warn(text string) {
	if v.onWarn != nil {
		v.onWarn(text)
	}
}

// missingFields returns what files miss of the expected fields, without the tolerance of the policy; nil if nothing.
func (p *prediction) missingFields(ctx context.Context, files []string, init time.Time) error {
	in, err := p.openFiles(ctx, inputFiles{files: files, init: init})
	if err != nil {
		return err
	}
	defer in.close()
	strict := *p.policy
	strict.Members.OnMissing = "fail"
	if err := in.applyPolicy(&strict); err != nil {
		return err
	}
	if len(in.selection.Inits) == 0 {
		return input.MissingInitError(ensemble.InitAt(init), in.catalogue.Inits())
	}
	return nil
}
