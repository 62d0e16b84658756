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

// stuck is how long the issuing may take over one thing before the service no longer says that it lives.
const stuck = time.Hour

// maxAside bounds the list of what folders of the input hold beside it.
const maxAside = 100

// state is what the issuing leaves behind for requests.
type state struct {
	tree    *tree
	metrics *metrics
	room    *room
	rate    *rate.Limiter             // of products; nil for no bound
	moved   atomic.Pointer[time.Time] // when the issuing went on last, by the clock that nobody sets

	mu      sync.Mutex
	options Options
	model   *predict.ModelFacts // nil until it is ready
	starts  []Start
	unread  []predict.Unread
	lack    string        // why some of the input is not there
	aside   []input.Aside // the first maxAside
	asides  int           // all of them
	maps    *gallery      // that the page shows; nil for none
	seq     uint64        // counts changes of what the page shows
	page    page
}

// Start is a start of the input and what becomes of it.
type Start struct {
	Cycle    string     `json:"cycle"`
	State    string     `json:"state"` // "waiting", "due", "issued" or "failed"
	Since    time.Time  `json:"since"` // when its first file came
	Deadline *time.Time `json:"deadline,omitempty"`
	Why      string     `json:"why,omitempty"` // what it waits for, or why it failed
	Tries    int        `json:"tries,omitempty"`
	Next     *time.Time `json:"next,omitempty"` // of a failed one: when it is tried again
}

// The states of a start.
const (
	waiting = "waiting"
	due     = "due"
	issued  = "issued"
	failed  = "failed"
)

func newState(o Options) *state {
	s := &state{tree: newTree(o.Predict.Out), metrics: newMetrics(version.String()), options: o}
	s.room = newRoom(o.Service.Connections, o.Service.PerAddress, func(why string) { s.metrics.refused.add(1, why) })
	if o.Service.Rate > 0 {
		s.rate = rate.NewLimiter(rate.Limit(o.Service.Rate), max(piece, int(min(int64(o.Service.Rate), 8<<20))))
	}
	s.goOn()
	return s
}

// hosts are the names of this service beside those that it has of itself.
func (s *state) hosts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Service.Hosts
}

// goOn says that the issuing is not stuck.
func (s *state) goOn() { now := time.Now(); s.moved.Store(&now) }

// live tells whether the issuing goes on.
func (s *state) live() bool { return time.Since(*s.moved.Load()) < stuck }

// ready says why no products can be expected; empty if they can.
func (s *state) ready() string {
	s.mu.Lock()
	model, within := s.model, s.options.Service.ReadyWithin
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
	if age := time.Since(startOf(newest.name)); age > within {
		return "the newest start is " + spell(age) + " old, more than " + spell(within)
	}
	return ""
}

// newest is the newest start with products, nil for none.
func (s *state) newest() *cycle {
	names, err := s.tree.names()
	if err != nil {
		return nil
	}
	for _, n := range names[:min(len(names), 100)] {
		if c, err := s.tree.cycle(n); err == nil {
			return c
		}
	}
	return nil
}

// startOf is the time that the name of a start stands for.
func startOf(name string) time.Time {
	t, _ := time.Parse("200601021504", minutes(name)) // a name of digits
	return t
}

// change changes what the page shows.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.seq++
}

// spell is a duration as people say it.
func spell(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return days(d)
	case d >= time.Hour:
		return trimZero(d.Round(time.Minute).String())
	}
	return trimZero(d.Round(time.Second).String())
}
