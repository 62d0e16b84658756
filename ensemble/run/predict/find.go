package predict

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	fio "github.com/ensemble-weather/ensemble/io"
)

// finder lists the input repeatedly.
type finder struct {
	patterns    []string
	onUnrelated func(input.UnrelatedFile) // receives, once each, files of folders that are not input; nil drops them
	listing     fio.Listing
	unrelated   []input.UnrelatedFile // at the last scan
}

// inputFiles are the files to predict from, and how.
type inputFiles struct {
	files     []string
	leftOut   []string                  // files left out at the deadline, with reasons
	init      time.Time                 // the only initialisation to predict; zero: all
	command   string                    // for the history attribute of the products
	accepted  string                    // source whose products replace existing ones (product.Publication); "": none
	deadline  time.Time                 // deadline for locks of other processes; zero: no waiting
	onExample func(*scoring.MapExample) // receives a map example of each initialisation; nil for none
}

// list lists the present input files, and reports new unrelated files in its folders.
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

// find waits for the input. Rank 0 scans the files every few seconds; it continues when all of them are
// complete and contain what is expected, or at the deadline with what is present. All ranks call it.
//
// Errors: exit 66 if the input is incomplete at the deadline and the policy requires more; ctx.Err().
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

// waitDeadline returns the end of waiting that starts now: the deadline, or the policy's waiting time; zero:
// no waiting.
func (p *prediction) waitDeadline(deadline time.Time) time.Time {
	if wait := p.policy.Members.Wait; wait > 0 {
		if end := p.options.Clock.Now().Add(wait); deadline.IsZero() || end.Before(deadline) {
			deadline = end
		}
	}
	return deadline
}
