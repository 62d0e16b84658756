package serve

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/product"
)

// maxStall is the time without progress of publishing after which /healthz fails.
const maxStall = time.Hour

// maxIgnored is the largest number of ignored files in /status.
const maxIgnored = 100

// state is shared by the issuer, which writes it, and the handler.
type state struct {
	tree         *productTree
	metrics      *metrics
	limiter      *connLimiter
	hook         *hook.Hook                // called when products were issued
	rate         *rate.Limiter             // rate limit of product downloads; nil: none
	begun        time.Time                 // start of the service
	lastProgress atomic.Pointer[time.Time] // time of the last progress, with monotonic clock

	mu      sync.Mutex
	options Options
	model   *predict.ModelDescription // nil until loaded
	found
	ruled
	memberStatistics
	scores scoresPage
}

// memberStatistics are those that are kept for maps.
type memberStatistics struct {
	membersOf    ensemble.Init // their initialisation; zero: none
	membersSaved int           // how often they were saved
}

// ruled is what operators ruled about initialisations, by name; about deliveries, by Decision.record.
type ruled struct {
	decisions map[string]Decision
	pruned    map[string]time.Time // when products were removed; they may exist again
}

// found is what the last scan found in the input.
type found struct {
	inits        []InitStatus
	unread       []predict.UnreadableFile
	missingInput string                // reason for missing input; "": none
	unscanned    bool                  // missingInput is why the last scan could read nothing; the others are of the scan before
	ignored      []input.UnrelatedFile // ignored input files, at most maxIgnored
	ignoredCount int                   // number of all ignored files
}

func newState(o Options) *state {
	s := &state{tree: newProductTree(o.Predict.Out), metrics: newMetrics(version.String()), options: o, begun: o.Predict.Clock.Now()}
	s.limiter = newConnLimiter(o.Service.MaxConnections, o.Service.MaxConnectionsPerAddress, func(why string) { s.metrics.rejected.add(1, why) })
	if o.Service.RateLimit > 0 {
		s.rate = rate.NewLimiter(rate.Limit(o.Service.RateLimit), max(chunkSize, int(min(int64(o.Service.RateLimit), 8<<20))))
	}
	s.markProgress()
	return s
}

// allowedHosts lists the host names of serve.allowed_hosts.
func (s *state) allowedHosts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Service.AllowedHosts
}

// corsOrigins lists the origins of serve.cors_origins.
func (s *state) corsOrigins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Service.CORSOrigins
}

// markProgress records progress of publishing.
func (s *state) markProgress() { now := time.Now(); s.lastProgress.Store(&now) }

// isAlive reports whether publishing has made progress within maxStall.
func (s *state) isAlive() bool { return time.Since(*s.lastProgress.Load()) < maxStall }

// notReadyReason is the reason for which /readyz fails; "" if the service is ready.
func (s *state) notReadyReason() string {
	s.mu.Lock()
	model, within := s.model, s.options.Service.ReadyMaxAge
	s.mu.Unlock()
	switch {
	case s.limiter.draining.Load():
		return "the service ends"
	case model == nil:
		return "the model is not ready"
	case within == 0:
		return ""
	}
	newest := s.newest()
	if newest == nil {
		return "there are no products"
	}
	if age := s.age(newest.name); age > within {
		return "the newest initialisation is " + humanise.Duration(age) + " old, more than " + humanise.Duration(within)
	}
	return ""
}

// clock returns the clock of ages.
func (s *state) clock() predict.Clock {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.options.Predict.Clock
	c.MaxFuture = s.options.Service.MaxFuture
	return c
}

// now returns the current time.
func (s *state) now() time.Time { return s.clock().Now() }

// age returns the time since an initialisation.
func (s *state) age(name string) time.Duration { return s.now().Sub(initOf(name)) }

// newest returns the newest initialisation with products that is not in the future; nil: none.
func (s *state) newest() *initProducts {
	names, err := s.tree.names()
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, s.isFuture)
	for _, n := range names[:min(len(names), 100)] {
		if c, err := s.tree.find(n); err == nil {
			return c
		}
	}
	return nil
}

// isFuture reports whether an initialisation is further in the future than serve.max_future.
func (s *state) isFuture(name string) bool { return s.clock().IsFuture(initOf(name)) }

// future lists initialisations with products that are too far in the future.
func (s *state) future() []string {
	names, err := s.tree.names()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(n string) bool {
		if !s.isFuture(n) {
			return true
		}
		_, err := s.tree.find(n)
		return err != nil
	})
}

// isShown reports whether an initialisation has products and is not in the future, so that the page shows it.
func (s *state) isShown(init ensemble.Init) bool {
	name := product.InitName(init)
	_, err := s.tree.find(name)
	return err == nil && !s.isFuture(name)
}

// updateGauges sets the gauges that follow the products on disk and the clock.
func (s *state) updateGauges() {
	m := &s.metrics.products
	ready := 0.0
	if s.notReadyReason() == "" {
		ready = 1
	}
	m.ready.set(ready)
	m.future.set(float64(len(s.future())))
	s.metrics.states.update(s.statuses(), s.now())
	newest := s.newest()
	if newest == nil {
		newest = &initProducts{name: "", manifest: &product.Manifest{}}
	}
	m.update(newest)
	if last := m.lastIssued; last.value() == 0 && newest.name != "" {
		last.set(unixSeconds(newest.written)) // of an earlier process
	}
	s.metrics.output.update(s.tree.dir)
	s.metrics.hook.update(s.hook.Status())
}

// initOf parses the name of an initialisation.
func initOf(name string) time.Time {
	t, _ := time.Parse("200601021504", nameToMinute(name)) // names are digits only
	return t
}

// change runs f with the lock held.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}
