package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filemark"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Waiting: the leading rank looks at the files every few seconds, and goes on when all of
// them are complete and hold what is expected, or at the deadline with what there is.

// settled is how long after its last change a file is taken for complete at the first
// look; else it must not change between two looks.
const settled = time.Minute

// longSettled is settled for times of the file system, whose clock may be another one.
const longSettled = time.Hour

// defaultPoll is the time between two looks unless it is given.
const defaultPoll = 5 * time.Second

// looked is what came of one look at the input.
type looked struct {
	Files []string // that are complete, or at the deadline those to go on with
	Left  []string // reasons of those that are left out at the deadline
	Done  bool
}

// await waits for the input, on all ranks, and sets p.files.
//
// Errors: exit 66 if it is not complete at the deadline and the policy does not go on with
// less; ctx.Err().
func (p *prediction) await(ctx context.Context, w team.Crew) error {
	v := newVigil(p)
	for {
		var l looked
		var err error
		if w.All.Leads() {
			l, err = v.look(ctx)
		}
		if w.All != nil {
			all, terr := team.Tell(w.All, team.Outcome[looked]{Result: l}, err)
			if terr != nil {
				return terr
			}
			l = all[0].Result
		}
		if err != nil {
			return err
		}
		if l.Done {
			p.files, p.left = l.Files, l.Left
			return nil
		}
	}
}

// vigil is the waiting of one prediction.
type vigil struct {
	p        *prediction
	deadline time.Time // zero: no waiting
	poll     time.Duration
	one      bool // start of several in the input is asked for: files of others may not be complete
	began    bool
	marks    map[string]filemark.Mark // at the last look
	states   map[string]standing      // at the last look
	tried    map[string]filemark.Mark // with which the inventory was looked at last
	lack     error                    // what it lacked
	said     string
}

// standing is what is known of a file as long as its mark is the same.
type standing struct {
	since    time.Time // its mark was seen first, by the clock here
	sure     bool      // it was read when a later change must show in its times, however coarse they are
	judged   bool      // its structure was looked at
	why      string    // it is not whole; "" if it is
	complete bool
}

func newVigil(p *prediction) *vigil {
	m := p.demand.Members
	v := &vigil{p: p, deadline: p.o.Deadline, poll: cmp.Or(m.Poll, defaultPoll), marks: map[string]filemark.Mark{}}
	if m.Wait > 0 {
		if end := time.Now().Add(m.Wait); v.deadline.IsZero() || end.Before(v.deadline) {
			v.deadline = end
		}
	}
	v.one = !p.o.Cycle.IsZero()
	p.demand.waits, p.until = !v.deadline.IsZero(), v.deadline
	return v
}

// look is one look at the input; all but the first come after a pause.
func (v *vigil) look(ctx context.Context) (l looked, err error) {
	if v.deadline.IsZero() {
		l.Done = true
		l.Files, err = v.p.find()
		return l, err
	}
	if v.began {
		pause := time.NewTimer(min(v.poll, max(0, time.Until(v.deadline))))
		defer pause.Stop()
		select {
		case <-ctx.Done():
			return l, ctx.Err()
		case <-pause.C:
		}
	}
	v.began = true
	last := !time.Now().Before(v.deadline)
	files, missing := v.p.find()
	if missing != nil && exit.CodeOf(missing) != exit.NotYet {
		return l, missing
	}
	complete, pending := v.sort(files)
	return v.judge(ctx, complete, pending, missing, last)
}

// find lists the input of now, as far as it is there, and tells of what is new in its folders and no input.
//
// Errors: those of fio.List.
func (p *prediction) find() ([]string, error) {
	files, aside, err := p.listing.List("--input", p.o.Input)
	told := map[input.Aside]bool{}
	for _, a := range p.aside {
		told[a] = true
	}
	for _, a := range aside {
		if !told[a] && p.o.Aside != nil {
			p.o.Aside(a)
		}
	}
	p.aside = aside
	return files, err
}

// judge decides on the files of one look, last of all at the deadline: missing is why there are
// none, or not all that are named.
func (v *vigil) judge(ctx context.Context, complete map[string]filemark.Mark, pending []waited, missing error, last bool) (l looked, err error) {
	l.Files = slices.Sorted(maps.Keys(complete))
	all := missing == nil && len(pending) == 0 && len(complete) > 0
	some := v.one && missing == nil && len(complete) > 0 // what is expected may be in them
	if (all || some || last && len(complete) > 0) && (v.tried == nil || !maps.EqualFunc(complete, v.tried, filemark.Mark.Same)) {
		v.tried, v.lack = complete, v.try(ctx, l.Files)
		if ctx.Err() != nil {
			return l, ctx.Err()
		}
	}
	if (all || some) && v.lack == nil {
		for _, f := range pending {
			v.warn("not waited for, as all that is expected is there: " + f.path + ": " + f.why)
		}
		l.Done = true
		return l, nil
	}
	if !last {
		v.say(missing, pending)
		return l, nil
	}
	l.Done = true
	return v.end(l, missing, pending)
}

// end decides at the deadline.
func (v *vigil) end(l looked, missing error, pending []waited) (looked, error) {
	degrades := v.p.demand.degrades()
	var late []*exit.Error
	damaged := false
	for _, f := range pending {
		if !degrades && !f.changing && f.damaged {
			l.Files, damaged = append(l.Files, f.path), true // who reads it names the damage
			continue
		}
		l.Left = append(l.Left, fmt.Sprintf("left out, not complete at the deadline: %s: %s", f.path, f.why))
		late = append(late, &exit.Error{Code: exit.NotYet, What: "an input file is not complete at the deadline", At: f.path, Why: f.why,
			Fix: "run the same command again later"})
	}
	var known *exit.Error
	if errors.As(missing, &known) && (!degrades || len(l.Files) == 0) {
		late = append(late, known)
	}
	if errors.As(v.lack, &known) && !degrades && !damaged && known.Code == exit.NotYet {
		late = append(late, known)
	}
	if len(late) > 0 && (!degrades || len(l.Files) == 0) {
		e := *late[0]
		e.More = slices.Concat(e.More, late[1:min(len(late), phrase.MaxListed)])
		return l, &e
	}
	return l, nil
}

// say reports what is waited for, when it changes.
func (v *vigil) say(missing error, pending []waited) {
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

func (v *vigil) warn(text string) {
	if v.p.o.Warn != nil {
		v.p.o.Warn(text)
	}
}

// try compares what complete files hold with what is expected, without the leave to go on
// with less.
func (v *vigil) try(ctx context.Context, files []string) error {
	defer v.p.release()
	if err := v.p.index(ctx, files); err != nil {
		return err
	}
	strict := *v.p.demand
	strict.Members.OnShort = "fail"
	if err := v.p.choose(&strict); err != nil {
		return err
	}
	if len(v.p.in.Inits) == 0 {
		return input.MissingInit(ensemble.InitAt(v.p.o.Cycle), v.p.cat.Inits())
	}
	return nil
}

// waited is a file that is not complete yet.
type waited struct {
	path, why string
	changing  bool // between two looks
	damaged   bool // by its structure
}

// sort tells complete files from those that are not. Files are read at each look until they are settled; then
// the file system is asked whether they are the same, so that folders may have many old ones.
func (v *vigil) sort(files []string) (complete map[string]filemark.Mark, pending []waited) {
	complete = map[string]filemark.Mark{}
	now, states := map[string]filemark.Mark{}, map[string]standing{}
	m := v.p.demand.Members
	for _, path := range files {
		before, known := v.marks[path]
		s := v.states[path]
		var err error
		mark := before
		if !s.sure || !before.Still(path) {
			mark, err = filemark.Of(path)
			if err != nil || !known || !mark.Untouched(before) {
				s = standing{since: time.Now()}
			}
			s.sure = err == nil && (time.Since(s.since) >= settled || time.Since(mark.Touched) >= longSettled)
		}
		now[path] = mark
		wait := waited{path: path}
		switch {
		case err != nil:
			wait.why, wait.changing = err.Error(), true
		case s.sure && s.complete:
		case known && !mark.Same(before), !known && time.Since(mark.Written) < settled:
			wait.why, wait.changing = fmt.Sprintf("it is still being written, %d bytes so far", mark.Size), true
		case m.Done != "" && fio.Beside(path, m.Done) == "":
			wait.why = "there is no " + filepath.Base(path) + m.Done + " beside it"
		case m.Index != "":
			wait.why = indexed(path, m.Index, mark.Size)
		}
		if wait.why == "" {
			if !s.judged {
				s.why, s.judged = v.whole(path)
			}
			wait.why, wait.damaged = s.why, s.why != ""
		}
		if s.complete = wait.why == ""; s.complete {
			complete[path] = mark
		} else {
			pending = append(pending, wait)
		}
		states[path] = s
	}
	v.marks, v.states = now, states
	return complete, pending
}

// whole says why a file is not whole, and whether that is known for good.
func (v *vigil) whole(path string) (why string, judged bool) {
	why, err := fio.Whole(path, fio.Options{Sparse: v.p.o.Policy.Sparse})
	var e *exit.Error
	if errors.As(err, &e) {
		return strings.TrimSpace(e.What + " " + e.Why), e.Code == exit.BadData
	}
	if err != nil {
		return err.Error(), false
	}
	return why, true
}

// indexed says why the index of a file does not show that it is complete, "" if it does:
// a row of it, JSON with _offset and _length or wgrib2's number:offset:…, lies behind the
// end, or it has none.
func indexed(path, ending string, size int64) string {
	name := fio.Beside(path, ending)
	if name == "" {
		return "there is no " + filepath.Base(path) + ending + " beside it"
	}
	err := fio.ReadIndex(name, func(row int, r fio.IndexRow) error {
		if r.End() > size {
			return fmt.Errorf("row %d of its index %s ends at byte %d, the file has %d", row, name, r.End(), size)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
