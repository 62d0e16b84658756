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
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filemark"
	"github.com/ensemble-weather/ensemble/internal/phrase"
)

// defaultPoll is the time between two scans unless it is given.
const defaultPoll = 5 * time.Second

// scan is what came of one scan of the input.
type scan struct {
	Files []string // that are complete, or at the deadline those to go on with
	Left  []string // reasons of those that are left out at the deadline
	Done  bool
}

// watcher waits for the input, or for that of one init.
type watcher struct {
	policy *inputPolicy
	files  *fileScanner
	warnTo func(string) // nil drops it
	list   func() ([]string, error)
	lacks  func(ctx context.Context, files []string, cycle time.Time) error // what files lack of what is expected

	deadline time.Time // zero: no waiting
	poll     time.Duration
	cycle    time.Time // only this init is asked for; zero: every one
	one      bool      // of several in the input: files of others may not be complete

	began bool
	tried map[string]filemark.Mark // with which the inventory was looked at last
	lack  error                    // what it lacked
	said  string
}

func newWatcher(p *prediction) *watcher {
	return &watcher{policy: p.policy, files: newFileScanner(p), warnTo: p.o.Warn, list: p.finder.list, lacks: p.lacks, poll: cmp.Or(p.policy.Members.Poll, defaultPoll)}
}

// scan scans the input once; all but the first come after a pause.
func (v *watcher) scan(ctx context.Context) (s scan, err error) {
	if v.deadline.IsZero() {
		s.Done = true
		s.Files, err = v.list()
		return s, err
	}
	if v.began {
		pause := time.NewTimer(min(v.poll, max(0, time.Until(v.deadline))))
		defer pause.Stop()
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-pause.C:
		}
	}
	v.began = true
	last := !time.Now().Before(v.deadline)
	files, missing := v.list()
	if missing != nil && exit.CodeOf(missing) != exit.NotYet {
		return s, missing
	}
	complete, pending := v.files.sort(files)
	return v.judge(ctx, complete, pending, missing, last)
}

// judge decides on the files of one scan, last of all at the deadline: missing is why there are
// none, or not all that are named.
func (v *watcher) judge(ctx context.Context, complete map[string]filemark.Mark, pending []waited, missing error, last bool) (s scan, err error) {
	s.Files = slices.Sorted(maps.Keys(complete))
	all := missing == nil && len(pending) == 0 && len(complete) > 0
	some := v.one && missing == nil && len(complete) > 0 // what is expected may be in them
	if (all || some || last && len(complete) > 0) && (v.tried == nil || !maps.EqualFunc(complete, v.tried, filemark.Mark.Same)) {
		v.tried, v.lack = complete, v.lacks(ctx, s.Files, v.cycle)
		if ctx.Err() != nil {
			return s, ctx.Err()
		}
	}
	if (all || some) && v.lack == nil {
		for _, f := range pending {
			v.warn("not waited for, as all that is expected is there: " + f.path + ": " + f.why)
		}
		s.Done = true
		return s, nil
	}
	if !last {
		v.say(missing, pending)
		return s, nil
	}
	s.Done = true
	return v.end(s, missing, pending)
}

// end decides at the deadline.
func (v *watcher) end(s scan, missing error, pending []waited) (scan, error) {
	degrades := v.policy.degrades()
	var late []*exit.Error
	damaged := false
	for _, f := range pending {
		if !degrades && !f.changing && f.damaged {
			s.Files, damaged = append(s.Files, f.path), true // who reads it names the damage
			continue
		}
		s.Left = append(s.Left, fmt.Sprintf("left out, not complete at the deadline: %s: %s", f.path, f.why))
		late = append(late, &exit.Error{Code: exit.NotYet, What: "an input file is not complete at the deadline", At: f.path, Why: f.why,
			Fix: "run the same command again later"})
	}
	var known *exit.Error
	if errors.As(missing, &known) && (!degrades || len(s.Files) == 0) {
		late = append(late, known)
	}
	if errors.As(v.lack, &known) && !degrades && !damaged && known.Code == exit.NotYet {
		late = append(late, known)
	}
	if len(late) > 0 && (!degrades || len(s.Files) == 0) {
		e := *late[0]
		e.More = slices.Concat(e.More, late[1:min(len(late), phrase.MaxListed)])
		return s, &e
	}
	return s, nil
}

// say reports what is waited for, when it changes.
func (v *watcher) say(missing error, pending []waited) {
	why := ""
	var e *exit.Error
	switch {
	case len(pending) > 0 && (!v.one || v.lack == nil):
		why = pending[0].path + ": " + pending[0].why
	case errors.As(missing, &e), errors.As(v.lack, &e):
		why = exit.OneLine(&exit.Error{What: e.What, At: e.At})
	}
	if why != v.said {
		v.warn(fmt.Sprintf("waiting until %s: %s", v.deadline.UTC().Format(time.RFC3339), why))
	}
	v.said = why
}

func (v *watcher) warn(text string) {
	if v.warnTo != nil {
		v.warnTo(text)
	}
}

// lacks says what files lack of what is expected, without the leave to go on with less; nil for nothing.
func (p *prediction) lacks(ctx context.Context, files []string, cycle time.Time) error {
	in, err := p.index(ctx, found{files: files, cycle: cycle})
	if err != nil {
		return err
	}
	defer in.close()
	strict := *p.policy
	strict.Members.OnShort = "fail"
	if err := in.choose(&strict); err != nil {
		return err
	}
	if len(in.sel.Inits) == 0 {
		return input.MissingInit(ensemble.InitAt(cycle), in.cat.Inits())
	}
	return nil
}
