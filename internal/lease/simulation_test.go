package lease_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/lease/leasetest"
)

// works takes the lease and publishes, again and again, until a time; rest is the largest pause before an attempt.
func works(m *leasetest.Machine, rest time.Duration, until time.Time) {
	for time.Now().Before(until) {
		m.Sleep(m.Draw(rest)+1, nil)
		l, err := m.Take()
		if errors.Is(err, lease.ErrHeld) {
			continue
		} else if err != nil {
			m.Fault("%s: take: %v", m.Name, err)
			return
		}
		m.Begins()
		for range 1 + m.Draw(20) {
			if err = m.Publishes(l); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, lease.ErrHeld) && !errors.Is(err, os.ErrNotExist) {
			m.Fault("%s: publish: %v", m.Name, err)
		}
		if m.Guarded && len(m.Pauses) == 0 && leasetest.IsLost(l, err) {
			m.Fault("%s lost its lease, and was never suspended: %v", m.Name, err)
		}
		if err := l.Release(); err != nil && !errors.Is(err, os.ErrNotExist) {
			m.Fault("%s: release: %v", m.Name, err)
		}
	}
}

// simulate runs two or three processes on machines of their own through a random schedule, and returns what went wrong.
func simulate(t *testing.T, seed uint64) (faults []string, owners int) {
	synctest.Test(t, func(t *testing.T) {
		s := leasetest.NewShare(seed)
		rest := []time.Duration{10 * time.Second, 10 * time.Millisecond}[s.Draw(2)] // the latter: all at once
		const length = 3 * time.Minute
		until := time.Now().Add(length)
		var all sync.WaitGroup
		for i := range 2 + int(s.Draw(2)) {
			m := s.NewMachine(string(rune('a'+i)), length)
			all.Go(func() { works(m, rest, until) })
		}
		all.Wait()
		// Whatever happened, the next process takes over in time, and finds nothing to do by hand.
		last := &leasetest.Machine{Share: s, Name: "z", Rate: 1, Begin: time.Now()}
		if l, err := last.Take(); err != nil {
			s.Fault("the next process: %v", err)
		} else {
			last.Begins()
			if err := errors.Join(last.Publishes(l), l.Release()); err != nil {
				s.Fault("the next process: %v", err)
			}
		}
		if s.Has(leasetest.LeaseFile) {
			s.Fault("a lease is left")
		}
		time.Sleep(2 * length) // heartbeats of processes that crashed while they were suspended
		faults, owners = s.Faults(), s.Owners()
	})
	return faults, owners
}

// checkSimulations runs n schedules.
func checkSimulations(t *testing.T, n int) {
	first := rand.Uint64()
	owners, begin := 0, time.Now()
	for i := range uint64(n) {
		faults, began := simulate(t, first+i)
		owners += began
		if len(faults) > 0 {
			t.Fatalf("seed %d: %s", first+i, strings.Join(faults, "\n"))
		}
	}
	t.Logf("%d schedules from seed %d with %d owners, %.0f a second", n, first, owners, float64(n)/time.Since(begin).Seconds())
}

// TestFault48Simulated: of two or three processes on machines of their own, at most one writes, whatever their clocks are,
// however long they are suspended between any two operations, and whichever crash; on a shared folder with and without
// locks, and one that shows old content for a minute. A process that was not suspended does not lose its lease.
func TestFault48Simulated(t *testing.T) { checkSimulations(t, 300) }
