package serve

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// maxStall is how long the issuing may take over one thing before the service no longer says that it lives.
const maxStall = time.Hour

// maxIgnored bounds the list of what folders of the input hold beside it.
const maxIgnored = 100

// state is what the issuing leaves behind for requests.
type state struct {
	tree         *productTree
	metrics      *metrics
	limiter      *connLimiter
	rate         *rate.Limiter             // of products; nil for no bound
	lastProgress atomic.Pointer[time.Time] // when the issuing went on last, by the clock that nobody sets

	mu           sync.Mutex
	options      Options
	model        *predict.ModelDescription // nil until it is ready
	inits        []InitStatus
	unread       []predict.UnreadableFile
	missingInput string                // why some of the input is not there
	ignored      []input.UnrelatedFile // the first maxIgnored
	ignoredCount int                   // all of them
	maps         *mapImages            // that the page shows; nil for none
	seq          uint64                // counts changes of what the page shows
	page         page
}

// InitStatus is a start of the input and what becomes of it.
type InitStatus struct {
	Name        string     `json:"name"`
	State       string     `json:"state"` // "waiting", "due", "issued" or "failed"
	Since       time.Time  `json:"since"` // when its first file came
	Deadline    *time.Time `json:"deadline,omitempty"`
	Why         string     `json:"why,omitempty"` // what it waits for, or why it failed
	Attempts    int        `json:"attempts,omitempty"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"` // of a failed one: when it is tried again
}

// The states of a start.
const (
	waiting = "waiting"
	due     = "due"
	issued  = "issued"
	failed  = "failed"
)

func newState(o Options) *state {
	s := &state{tree: newProductTree(o.Predict.Out), metrics: newMetrics(version.String()), options: o}
	s.limiter = newConnLimiter(o.Service.MaxConnections, o.Service.MaxConnectionsPerAddress, func(why string) { s.metrics.rejected.add(1, why) })
	if o.Service.RateLimit > 0 {
		s.rate = rate.NewLimiter(rate.Limit(o.Service.RateLimit), max(chunkSize, int(min(int64(o.Service.RateLimit), 8<<20))))
	}
	s.markProgress()
	return s
}

// allowedHosts are the names of this service beside those that it has of itself.
func (s *state) allowedHosts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Service.AllowedHosts
}

// markProgress says that the issuing is not stuck.
func (s *state) markProgress() { now := time.Now(); s.lastProgress.Store(&now) }

// isAlive tells whether the issuing goes on.
func (s *state) isAlive() bool { return time.Since(*s.lastProgress.Load()) < maxStall }

// notReadyReason says why no products can be expected; empty if they can.
func (s *state) notReadyReason() string {
	s.mu.Lock()
	model, within := s.model, s.options.Service.ReadyMaxAge
	s.mu.Unlock()
	switch {
	case model == nil:
		return "the model is not ready"
	case within == 0:
		return ""
	}
	newest := s.newest()
	if newest == nil {
		return "there are no products"
	}
	if age := time.Since(initOf(newest.name)); age > within {
		return "the newest start is " + formatAge(age) + " old, more than " + formatAge(within)
	}
	return ""
}

// newest is the newest start with products, nil for none.
func (s *state) newest() *initProducts {
	names, err := s.tree.names()
	if err != nil {
		return nil
	}
	for _, n := range names[:min(len(names), 100)] {
		if c, err := s.tree.find(n); err == nil {
			return c
		}
	}
	return nil
}

// initOf is the time that the name of a start stands for.
func initOf(name string) time.Time {
	t, _ := time.Parse("200601021504", nameToMinute(name)) // a name of digits
	return t
}

// change changes what the page shows.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.seq++
}

// formatAge is a duration as people say it.
func formatAge(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return days(d)
	case d >= time.Hour:
		return trimZero(d.Round(time.Minute).String())
	}
	return trimZero(d.Round(time.Second).String())
}
