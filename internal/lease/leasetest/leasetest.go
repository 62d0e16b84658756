package lease

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// share is a folder that simulated machines use together.
type share struct {
	guarded bool          // it has locks
	linked  bool          // it has hard links
	stale   time.Duration // for which machines remember what they read
	rest    time.Duration // largest pause before an attempt to take the lease

	mu     sync.Mutex
	random *rand.Rand
	files  map[string]*inode
	locked bool
	stages map[string]bool // of owners, not published
	began  []string        // owners, in the order in which they began to write
	faults []string
}

// inode is a file, whatever its names are.
type inode struct{ text []byte }

func (s *share) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// draw returns a random time below d.
func (s *share) draw(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(d)))
}

// pause is a time in which a process does not run.
type pause struct{ from, to time.Time }

// simulated is a process on a machine of its own, whose clock is fast or slow. It may be suspended between any two
// operations, and crash.
type simulated struct {
	*share
	name   string
	rate   float64
	zero   time.Duration // of its clock
	pauses []pause
	crash  time.Time // zero: never
	begin  time.Time

	cache sync.Map // name → remembered
}

// remembered is what a machine has read, nil for no file.
type remembered struct {
	text []byte
	at   time.Time
}

// run waits while the process is suspended, and ends the goroutine of one that has crashed.
func (m *simulated) run() {
	for again := true; again; {
		again = false
		for _, p := range m.pauses {
			if now := time.Now(); !now.Before(p.from) && now.Before(p.to) {
				time.Sleep(time.Until(p.to))
				again = true
			}
		}
	}
	if !m.crash.IsZero() && !time.Now().Before(m.crash) {
		runtime.Goexit()
	}
}

// operate performs an operation on the share, which takes some time before and after it.
func (m *simulated) operate(f func() error) error {
	m.run()
	time.Sleep(m.draw(5 * time.Millisecond))
	m.run()
	m.mu.Lock()
	err := f()
	m.mu.Unlock()
	time.Sleep(m.draw(5 * time.Millisecond))
	m.run()
	return err
}

func (m *simulated) owner() owner {
	return owner{Host: m.name, Boot: "boot", Token: fmt.Sprintf("%s%d", m.name, m.draw(1<<40)), Heartbeats: firstHeartbeat}
}

func (m *simulated) isRunning(owner) bool { return m.crash.IsZero() || time.Now().Before(m.crash) }

func (m *simulated) now() time.Duration {
	return m.zero + time.Duration(m.rate*float64(time.Since(m.begin)))
}

func (m *simulated) sleep(d time.Duration, stop <-chan struct{}) bool {
	m.run()
	end := time.NewTimer(time.Duration(float64(d)/m.rate) + m.draw(time.Microsecond))
	defer end.Stop()
	select {
	case <-stop:
		return false
	case <-end.C:
		m.run()
		return true
	}
}

// read answers from memory for a while, as clients of network file systems do.
func (m *simulated) read(name string) (text []byte, err error) {
	err = m.operate(func() error {
		if old, ok := m.cache.Load(name); ok && time.Since(old.(remembered).at) < m.stale {
			text = old.(remembered).text
		} else {
			text = nil
			if f := m.files[name]; f != nil {
				text = f.text
			}
			m.cache.Store(name, remembered{text, time.Now()})
		}
		if text == nil {
			return os.ErrNotExist
		}
		return nil
	})
	return text, err
}

func (m *simulated) create(name string, text []byte) (file, error) {
	f := &inode{text}
	err := m.operate(func() error {
		m.cache.Delete(name)
		if m.files[name] != nil {
			return os.ErrExist
		}
		m.files[name] = f
		return nil
	})
	return simulatedFile{m, f}, err
}

func (m *simulated) link(from, to string) error {
	if !m.linked {
		return errors.ErrUnsupported
	}
	return m.operate(func() error {
		f := m.files[from]
		switch {
		case f == nil:
			return os.ErrNotExist
		case m.files[to] != nil:
			return os.ErrExist
		}
		m.cache.Delete(to)
		m.files[to] = f
		return nil
	})
}

func (m *simulated) rename(from, to string) error {
	return m.operate(func() error {
		f := m.files[from]
		if f == nil {
			return os.ErrNotExist
		}
		m.cache.Delete(from)
		m.cache.Delete(to)
		delete(m.files, from)
		m.files[to] = f
		return nil
	})
}

func (m *simulated) remove(name string) error {
	return m.operate(func() error {
		m.cache.Delete(name)
		if m.files[name] == nil {
			return os.ErrNotExist
		}
		delete(m.files, name)
		return nil
	})
}

func (m *simulated) list(dir string) (names []string, err error) {
	err = m.operate(func() error {
		for name := range m.files {
			names = append(names, path.Base(name))
		}
		return nil
	})
	return names, err
}

func (m *simulated) lock(string) (release func(), guarded bool, err error) {
	if !m.guarded {
		return func() {}, false, nil
	}
	mine, done := false, false
	release = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.locked = false
	}
	defer func() {
		if mine && !done { // it crashed
			release()
		}
	}()
	err = m.operate(func() error {
		if m.locked {
			return unix.EWOULDBLOCK
		}
		m.locked, mine = true, true
		return nil
	})
	done = true
	return release, true, err
}

// simulatedFile is an open file.
type simulatedFile struct {
	m *simulated
	f *inode
}

func (f simulatedFile) overwrite(text []byte) error {
	return f.m.operate(func() error { f.f.text = text; return nil })
}

func (simulatedFile) close() error { return nil }

// begins makes a new owner the writer. It removes what its predecessors have not published.
func (m *simulated) begins(token string) {
	_ = m.operate(func() error {
		m.began = append(m.began, token)
		clear(m.stages)
		return nil
	})
}

// publishes is one publication of an owner: it prepares a folder, and moves it into place within Guard.
//
// Errors: those of Guard; os.ErrNotExist if the next owner has removed the folder.
func (m *simulated) publishes(l *Lease) error {
	token := l.me.Token
	_ = m.operate(func() error { m.stages[token] = true; return nil })
	m.sleep(m.draw(3*time.Second)+1, nil) // the work
	return l.Guard(func() error {
		return m.operate(func() error {
			if !m.guarded && !m.stages[token] {
				return os.ErrNotExist
			}
			if last := m.began[len(m.began)-1]; last != token {
				m.faults = append(m.faults, fmt.Sprintf("%s publishes after %s has begun to write", token, last))
			}
			delete(m.stages, token)
			return nil
		})
	})
}

// works takes the lease and publishes, again and again, until a time.
func (m *simulated) works(until time.Time) {
	for time.Now().Before(until) {
		m.sleep(m.draw(m.rest)+1, nil)
		l, err := takeOn(m, "run.lock", "the folder")
		if errors.Is(err, ErrHeld) {
			continue
		} else if err != nil {
			m.fault("%s: take: %v", m.name, err)
			return
		}
		m.begins(l.me.Token)
		for range 1 + m.draw(20) {
			if err = m.publishes(l); err != nil {
				break
			}
		}
		lost := errors.Is(err, ErrHeld) && l.taken.Load()
		if err != nil && !errors.Is(err, ErrHeld) && !errors.Is(err, os.ErrNotExist) {
			m.fault("%s: publish: %v", m.name, err)
		}
		if lost && m.guarded && len(m.pauses) == 0 {
			m.fault("%s lost its lease, and was never suspended: %v", m.name, err)
		}
		if err := l.Release(); err != nil && !errors.Is(err, os.ErrNotExist) {
			m.fault("%s: release: %v", m.name, err)
		}
	}
}

// simulate runs two or three processes on machines of their own through a random schedule, and returns what went wrong.
func simulate(t *testing.T, seed uint64) (faults []string, owners int) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 40))
		s := &share{guarded: random.IntN(2) == 0, linked: true, random: rand.New(rand.NewPCG(seed, 41)), files: map[string]*inode{}, stages: map[string]bool{}}
		if random.IntN(2) == 0 {
			s.stale = time.Minute
		}
		s.rest = []time.Duration{10 * time.Second, 10 * time.Millisecond}[random.IntN(2)] // the latter: all at once
		begin := time.Now()
		const length = 3 * time.Minute
		var all sync.WaitGroup
		for i := range 2 + random.IntN(2) {
			m := &simulated{share: s, name: string(rune('a' + i)), rate: 0.9 + random.Float64()/5, zero: time.Duration(random.Int64N(int64(1000 * time.Hour))), begin: begin}
			for range random.IntN(4) { // none, to three
				from := begin.Add(time.Duration(random.Int64N(int64(length))))
				m.pauses = append(m.pauses, pause{from, from.Add(time.Duration(random.Int64N(int64(time.Minute))))})
			}
			if random.IntN(3) == 0 {
				m.crash = begin.Add(time.Duration(random.Int64N(int64(length))))
			}
			all.Go(func() { m.works(begin.Add(length)) })
		}
		all.Wait()
		// Whatever happened, the next process takes over in time, and finds nothing to do by hand.
		last := &simulated{share: s, name: "z", rate: 1, begin: begin}
		if l, err := takeOn(last, "run.lock", "the folder"); err != nil {
			s.fault("the next process: %v", err)
		} else {
			last.begins(l.me.Token)
			if err := errors.Join(last.publishes(l), l.Release()); err != nil {
				s.fault("the next process: %v", err)
			}
		}
		if s.files["run.lock"] != nil {
			s.fault("a lease is left")
		}
		time.Sleep(2 * length) // heartbeats of processes that crashed while they were suspended
		faults, owners = s.faults, len(s.began)
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
