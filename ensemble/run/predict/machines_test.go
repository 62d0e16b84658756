package predict

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/lease/leasetest"
)

// gribMessage has the ends of a GRIB message, which are what the scan of a growing file reads.
const gribMessage = "GRIB and 100 bytes of it xxxxxxxxxxxxxxxxxxxx7777"

// arrivals are files of two messages that another machine writes into a shared folder, in pieces: names, and the times of the pieces.
type arrivals struct {
	share *leasetest.Share
	times map[string][]time.Time
	ahead time.Duration // by which the clock of the file server is ahead
}

// pieces are the sizes of a file after each piece, of a half message, one, one and a half, and two.
var pieces = []int{len(gribMessage) / 2, len(gribMessage), 3 * len(gribMessage) / 2, 2 * len(gribMessage)}

// newArrivals draws when files arrive; one of them may not arrive at all.
func newArrivals(s *leasetest.Share, within time.Duration) *arrivals {
	a := &arrivals{share: s, times: map[string][]time.Time{}, ahead: s.Draw(2*time.Hour) - time.Hour}
	for i := range 3 {
		var at []time.Time
		for range pieces {
			at = append(at, time.Now().Add(s.Draw(within)))
		}
		slices.SortFunc(at, time.Time.Compare)
		if i == 2 && s.Draw(3) == 0 {
			at = nil
		}
		a.times[fmt.Sprintf("fc_%d.grib2", i)] = at
	}
	return a
}

// isComplete reports whether all files arrive.
func (a *arrivals) isComplete() bool { return a.times["fc_2.grib2"] != nil }

// site is a process that waits for the input and publishes, on a machine of its own with its own view of the folder.
type site struct {
	*leasetest.Machine
	t      *testing.T
	clock  Clock
	policy *inputPolicy
	input  *arrivals
	view   string    // real folder with what the machine sees
	seen   time.Time // when the view was last renewed
	until  time.Time // when the present attempt should have ended, whatever the clock of the machine is and however it is suspended
	used   *sync.Map // token → content that was published
}

// list renews the view, as often as a client of a network file system does, and lists it.
func (s *site) list() (files []string, err error) {
	s.Run()
	if time.Now().After(s.until) {
		return nil, &exit.Error{Code: exit.Bug, What: "the machine does not wait by its own clock", At: s.Name}
	}
	if s.seen.IsZero() || time.Since(s.seen) >= s.Stale {
		s.seen = time.Now()
		for name, times := range s.input.times {
			n := len(slices.DeleteFunc(slices.Clone(times), func(at time.Time) bool { return at.After(s.seen) }))
			if path := filepath.Join(s.view, name); n > 0 {
				text := strings.Repeat(gribMessage, 2)[:pieces[n-1]]
				if old, err := os.ReadFile(path); err != nil || string(old) != text {
					changed := times[n-1].Add(s.input.ahead)
					runtest.Must(s.t, errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, changed, changed)))
				}
			}
		}
	}
	files, err = filepath.Glob(filepath.Join(s.view, "*.grib2"))
	if len(files) == 0 {
		err = &exit.Error{Code: exit.NotYet, What: "no files", At: s.view}
	}
	return files, err
}

// missing is the check of the inventory: all messages of all files.
func (s *site) missing(_ context.Context, files []string, _ time.Time) error {
	if content := s.content(files); len(content) < len(s.input.times)*2*len(gribMessage) {
		return &exit.Error{Code: exit.NotYet, What: "fields are missing", At: s.view}
	}
	return nil
}

// content is what a prediction reads.
func (s *site) content(files []string) (all string) {
	for _, path := range files {
		text, err := os.ReadFile(path)
		runtest.Must(s.t, err)
		all += string(text)
	}
	return all
}

// issue waits for the input until a deadline by the clock of the machine, takes the lease, and publishes unless that was done.
//
// Errors: those of the watcher, and of the lease.
func (s *site) issue(deadline time.Time) error {
	v := &watcher{policy: s.policy, now: s.clock.Now, pauses: s.clock.Pauses, files: &fileScanner{policy: s.policy, now: s.clock.Now, pauses: s.clock.Pauses},
		list: s.list, missing: s.missing, deadline: deadline, poll: 5 * time.Second}
	var found scanResult
	for !found.Done {
		var err error
		if found, err = v.scan(s.t.Context()); err != nil {
			return err
		}
	}
	content := s.content(found.Files)
	if !s.policy.allowsFewer() { // a file that is cut off at the deadline is among them, for its error
		if len(content)%len(gribMessage) != 0 {
			return &exit.Error{Code: exit.BadData, What: "cut off", At: s.view}
		}
		if err := s.missing(s.t.Context(), found.Files, time.Time{}); err != nil {
			return err
		}
	}
	l, err := s.clock.waitForLease(s.t.Context(), deadline, s.Take, nil)
	if err != nil {
		return err
	}
	s.Begins()
	if s.Draw(2) == 0 {
		s.Suspend(3*time.Second, time.Minute)
	}
	if !s.isIssued() {
		s.used.Store(s.Token(), content)
		err = s.Publishes(l)
	}
	if e := l.Release(); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// isIssued reports whether the machine sees a product.
func (s *site) isIssued() bool {
	_, err := s.Read(leasetest.Product)
	return err == nil
}

// works tries to issue the product, as a scheduler starts a command again, until it is there or until a time.
func (s *site) works(until time.Time) {
	for time.Now().Before(until) && !s.isIssued() {
		s.Sleep(s.Draw(20*time.Second)+1, nil)
		wait := time.Minute + s.Draw(3*time.Minute)
		s.until = time.Now().Add(2*wait + 4*time.Minute)
		err := s.issue(s.clock.Now().Add(wait))
		if code := exit.CodeOf(err); err != nil && code != exit.NotYet && code != exit.BadData && !errors.Is(err, lease.ErrHeld) && !errors.Is(err, os.ErrNotExist) {
			s.Fault("%s: %v", s.Name, err)
		}
	}
}

// simulateMachines runs two or three processes that wait for the same input through a random schedule, and returns what went wrong, and the number
// of publications.
func simulateMachines(t *testing.T, dir string, seed uint64) (faults []string, published int) {
	synctest.Test(t, func(t *testing.T) {
		share := leasetest.NewShare(seed)
		const length = 10 * time.Minute
		begin := time.Now()
		input, policy, used := newArrivals(share, length/2), &inputPolicy{}, &sync.Map{}
		policy.Members.OnMissing = []string{"fail", "degrade"}[share.Draw(2)]
		start := func(m *leasetest.Machine) *site {
			s := &site{Machine: m, t: t, policy: policy, input: input, view: filepath.Join(dir, fmt.Sprint(seed), m.Name), used: used}
			s.clock = Clock{Time: m.Clock().Time, Pauses: m.Clock()}
			runtest.Must(t, os.MkdirAll(s.view, 0o755))
			return s
		}
		var all sync.WaitGroup
		var sites []*site
		for i := range 2 + int(share.Draw(2)) {
			s := start(share.NewMachine(string(rune('a'+i)), length))
			sites = append(sites, s)
			all.Go(func() { s.works(begin.Add(length)) })
		}
		all.Wait()
		last := start(&leasetest.Machine{Share: share, Name: "z", Rate: 1, Begin: time.Now()}) // whatever happened to the others
		last.works(time.Now().Add(length))
		if want := policy.allowsFewer() || input.isComplete(); want != share.Has(leasetest.Product) {
			share.Fault("a product is there: %t, want %t", !want, want)
		}
		// What may be left is the lease of a process that crashed between its publication and the end of its lease, and one of zeros, which
		// is nobody's.
		crashed := func(owner string) bool {
			return slices.ContainsFunc(sites, func(s *site) bool { return !s.IsRunning(lease.Owner{}) && strings.Contains(owner, s.Token()) })
		}
		if text, err := last.Read(leasetest.LeaseFile); err == nil && strings.Trim(string(text), "\x00") != "" && !crashed(string(text)) {
			share.Fault("a lease is left: %s", text)
		}
		for _, token := range share.Published() {
			content, _ := used.Load(token)
			messages := strings.Count(content.(string), gribMessage)
			if messages*len(gribMessage) != len(content.(string)) || messages < 6 && !policy.allowsFewer() {
				share.Fault("%s published %q", token, content)
			}
		}
		if published = len(share.Published()); share.Stale == 0 && published > 1 {
			share.Fault("published %d times", published)
		}
		time.Sleep(2 * length) // heartbeats of processes that crashed while they were suspended
		faults = share.Faults()
	})
	return faults, published
}

// TestFault48Machines: of two or three processes on machines of their own that wait for the same input on a shared folder, at most one
// publishes at a time, whatever their clocks are, however long they are suspended, and whichever crash, also where the folder shows old content for a
// minute, or has no locks. Each waits by its own clock. Nothing is published from a part of a message, and nothing from part of the
// messages unless the policy allows it; if the machines see what the others write, once.
func TestFault48Machines(t *testing.T) {
	first, dir, published := rand.Uint64(), t.TempDir(), 0
	const n = 100
	for i := range uint64(n) {
		faults, count := simulateMachines(t, dir, first+i)
		published += count
		if len(faults) > 0 {
			t.Fatalf("seed %d: %s", first+i, strings.Join(faults, "\n"))
		}
	}
	t.Logf("%d schedules from seed %d with %d publications", n, first, published)
}

// TestWaitForLease: a lease that another process holds is waited for by the clocks of the prediction, until the last attempt at the end.
func TestWaitForLease(t *testing.T) {
	for _, c := range []struct {
		held  int // attempts
		waits []time.Duration
		err   error
	}{{0, nil, nil}, {1, []time.Duration{time.Second}, nil}, {9, []time.Duration{time.Second, time.Second, 500 * time.Millisecond}, lease.ErrHeld}} {
		now := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		var waits []time.Duration
		clock := Clock{Time: func() time.Time { return now }, Pauses: backoff.Clock{Timer: func(d time.Duration) <-chan time.Time {
			waits, now = append(waits, d), now.Add(d)
			done := make(chan time.Time, 1)
			done <- now
			return done
		}}}
		taken, warned := 0, 0
		_, err := clock.waitForLease(t.Context(), now.Add(2500*time.Millisecond), func() (*lease.Lease, error) {
			if taken++; taken > c.held {
				return nil, nil
			}
			return nil, &exit.Error{Code: exit.CannotWrite, Err: lease.ErrHeld}
		}, func(string) { warned++ })
		if !errors.Is(err, c.err) || !slices.Equal(waits, c.waits) || warned != min(c.held, 1) {
			t.Errorf("held %d times: %v after %v, %d warnings", c.held, err, waits, warned)
		}
	}
}
