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
	onUnrelated func(input.UnrelatedFile) // is given each file of a folder that is no input, once; nil drops it
	listing     fio.Listing
	unrelated   []input.UnrelatedFile // at the last scan
}

// inputFiles is the files to predict from, and what is asked of them.
type inputFiles struct {
	files     []string
	leftOut   []string                  // files that were left out at the deadline, with reasons
	init      time.Time                 // only this init; zero: every one
	command   string                    // for the history in the products
	deadline  time.Time                 // when waiting ends, for others too that make the same products; zero: no waiting
	onExample func(*scoring.MapExample) // is given what a page shows of each init; nil for none
}

// list lists the input of now, as far as it is there, and reports what is new in its folders and no input.
//
// Errors: those of fio.List.
func (f *finder) list() ([]string, error) {
	files, unrelated, err := f.listing.List("--input", f.patterns)
	known := map[input.UnrelatedFile]bool{}
	for _, a := range f.unrelated {
		known[a] = true
	}
	for _, a := range unrelated {
		if !known[a] && f.onUnrelated != nil {
			f.onUnrelated(a)
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
func (p *prediction) find(ctx context.Context, w team.Teams) (inputFiles, error) {
	v := newWatcher(p)
	v.deadline = p.waitDeadline(p.options.Deadline)
	v.init, v.single = p.options.Init, !p.options.Init.IsZero()
	for {
		var s scanResult
		var err error
		if w.All.IsRoot() {
			s, err = v.scan(ctx)
		}
		if w.All != nil {
			all, terr := team.AllGatherOutcomes(w.All, team.Outcome[scanResult]{Result: s}, err)
			if terr != nil {
				return inputFiles{}, terr
			}
			s = all[0].Result
		}
		if err != nil {
			return inputFiles{}, err
		}
		if s.Done {
			return inputFiles{files: s.Files, leftOut: s.LeftOut, init: p.options.Init, deadline: v.deadline}, nil
		}
	}
}

// waitDeadline is when waiting ends that begins now, for a deadline or after the time of the policy; zero: there is no waiting.
func (p *prediction) waitDeadline(deadline time.Time) time.Time {
	if wait := p.policy.Members.Wait; wait > 0 {
		if end := time.Now().Add(wait); deadline.IsZero() || end.Before(deadline) {
			deadline = end
		}
	}
	return deadline
}
