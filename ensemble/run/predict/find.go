package predict

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	fio "github.com/ensemble-weather/ensemble/io"
)

// finder lists the input, again and again.
type finder struct {
	patterns    []string
	unrelatedTo func(input.Aside) // is given each file of a folder that is no input, once; nil drops it
	listing     fio.Listing
	unrelated   []input.Aside // at the last scan
}

// found is the files to predict from, and what is asked of them.
type found struct {
	files   []string
	left    []string               // files that were left out at the deadline, with reasons
	cycle   time.Time              // only this init; zero: every one
	command string                 // for the history in the products
	until   time.Time              // when waiting ends, for others too that make the same products; zero: no waiting
	shown   func(*scoring.Example) // is given what a page shows of each init; nil for none
}

// list lists the input of now, as far as it is there, and reports what is new in its folders and no input.
//
// Errors: those of fio.List.
func (f *finder) list() ([]string, error) {
	files, unrelated, err := f.listing.List("--input", f.patterns)
	known := map[input.Aside]bool{}
	for _, a := range f.unrelated {
		known[a] = true
	}
	for _, a := range unrelated {
		if !known[a] && f.unrelatedTo != nil {
			f.unrelatedTo(a)
		}
	}
	f.unrelated = unrelated
	return files, err
}

// find waits for the input, on all ranks: the leading one scans the files every few seconds, and goes on when all of
// them are complete and hold what is expected, or at the deadline with what there is.
//
// Errors: exit 66 if it is not complete at the deadline and the policy does not go on with
// less; ctx.Err().
func (p *prediction) find(ctx context.Context, w team.Crew) (found, error) {
	v := newWatcher(p)
	v.deadline = p.endOfWaiting(p.o.Deadline)
	v.cycle, v.one = p.o.Cycle, !p.o.Cycle.IsZero()
	for {
		var s scan
		var err error
		if w.All.Leads() {
			s, err = v.scan(ctx)
		}
		if w.All != nil {
			all, terr := team.Tell(w.All, team.Outcome[scan]{Result: s}, err)
			if terr != nil {
				return found{}, terr
			}
			s = all[0].Result
		}
		if err != nil {
			return found{}, err
		}
		if s.Done {
			return found{files: s.Files, left: s.Left, cycle: p.o.Cycle, until: v.deadline}, nil
		}
	}
}

// endOfWaiting is when waiting ends that begins now, for a deadline or after the time of the policy; zero: there is no waiting.
func (p *prediction) endOfWaiting(deadline time.Time) time.Time {
	if wait := p.policy.Members.Wait; wait > 0 {
		if end := time.Now().Add(wait); deadline.IsZero() || end.Before(deadline) {
			deadline = end
		}
	}
	return deadline
}
