// Package leasetest simulates machines that share a folder, for tests of leases under the virtual clock of testing/synctest: clocks are
// fast, slow and set wrong, processes are suspended between any two operations and crash, the folder may lack locks, and shows old
// content for a while. Only tests import it.
package leasetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/lease"
)

// Share is a folder that simulated machines use together, and the record of who writes there.
//
// Concurrency: any goroutine may call its methods and those of its machines; each machine runs one process at a time.
type Share struct {
	Guarded bool          // it has locks
	Stale   time.Duration // for which machines remember what they read

	mu     sync.Mutex
	random *rand.Rand
	files  map[string]*inode
	locked bool
	stages map[string]bool // of owners, not published
	began  []string        // owners, in the order in which they began to write
	faults []string

	published []string
}

// NewShare returns an empty folder of a random kind. seed also determines all later draws.
func NewShare(seed uint64) *Share {
	s := &Share{random: rand.New(rand.NewPCG(seed, 40)), files: map[string]*inode{}, stages: map[string]bool{}}
	s.Guarded = s.random.IntN(2) == 0
	if s.random.IntN(2) == 0 {
		s.Stale = time.Minute
	}
	return s
}

// inode is a file, whatever its names are.
type inode struct{ text []byte }

// Fault records a fault that a test found.
func (s *Share) Fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// Faults returns the recorded faults.
func (s *Share) Faults() []string { return s.faults }

// Owners is the number of processes that began to write.
func (s *Share) Owners() int { return len(s.began) }

// Has reports whether a file is there.
func (s *Share) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[name] != nil
}

// Draw returns a random time below d.
func (s *Share) Draw(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Int64N(int64(d)))
}

// Pause is a time in which a process does not run.
type Pause struct{ From, To time.Time }

// Machine is a machine with one process, which may be suspended between any two operations, and crash. Its clock is fast or slow, and
// set wrong.
type Machine struct {
	*Share
	Name   string
	Rate   float64       // seconds of its clock in a second
	Ahead  time.Duration // by which its clock is ahead at Begin
	Pauses []Pause
	Crash  time.Time // zero: never
	Begin  time.Time

	token string   // of the last lease
	cache sync.Map // name → remembered
}

// NewMachine returns a machine whose process may be suspended up to three times, and may crash, within a time from now.
func (s *Share) NewMachine(name string, length time.Duration) *Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.random
	m := &Machine{Share: s, Name: name, Rate: 0.9 + r.Float64()/5, Ahead: time.Duration(r.Int64N(int64(1000 * time.Hour))), Begin: time.Now()}
	for range r.IntN(4) { // none, to three
		from := m.Begin.Add(time.Duration(r.Int64N(int64(length))))
		m.Pauses = append(m.Pauses, Pause{from, from.Add(time.Duration(r.Int64N(int64(time.Minute))))})
	}
	if r.IntN(3) == 0 {
		m.Crash = m.Begin.Add(time.Duration(r.Int64N(int64(length))))
	}
	return m
}

// remembered is what a machine has read, nil for no file.
type remembered struct {
	text []byte
	at   time.Time
}

// Suspend lets the process not run for a time, which begins within another one.
func (m *Machine) Suspend(within, length time.Duration) {
	from := time.Now().Add(m.Draw(within))
	p := Pause{from, from.Add(m.Draw(length))}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Pauses = append(m.Pauses, p)
}

// Run waits while the process is suspended, and ends the goroutine of one that has crashed.
func (m *Machine) Run() {
	for again := true; again; {
		again = false
		m.mu.Lock()
		pauses := slices.Clone(m.Pauses)
		m.mu.Unlock()
		for _, p := range pauses {
			if now := time.Now(); !now.Before(p.From) && now.Before(p.To) {
				time.Sleep(time.Until(p.To))
				again = true
			}
		}
	}
	if !m.Crash.IsZero() && !time.Now().Before(m.Crash) {
		runtime.Goexit()
	}
}

// operate performs an operation on the share, which takes some time before and after it.
func (m *Machine) operate(f func() error) error {
	m.Run()
	time.Sleep(m.Draw(5 * time.Millisecond))
	m.Run()
	m.mu.Lock()
	err := f()
	m.mu.Unlock()
	time.Sleep(m.Draw(5 * time.Millisecond))
	m.Run()
	return err
}

// Clock is the clock of the machine: that of its date and of its pauses.
func (m *Machine) Clock() backoff.Clock { return backoff.Clock{Time: m.date, Timer: m.after} }

// date is the time by the clock of the machine.
func (m *Machine) date() time.Time { return m.Begin.Add(m.Now()) }

// after is time.After by the clock of the machine.
func (m *Machine) after(d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	time.AfterFunc(m.real(d), func() { c <- m.date() })
	return c
}

// real converts a time by the clock of the machine.
func (m *Machine) real(d time.Duration) time.Duration { return time.Duration(float64(d) / m.Rate) }

// Owner is the process of the machine, for a new lease.
func (m *Machine) Owner() lease.Owner {
	m.token = fmt.Sprintf("%s%d", m.Name, m.Draw(1<<40))
	return lease.Owner{Host: m.Name, Boot: "boot", Token: m.token, Heartbeats: lease.FirstHeartbeat}
}

// IsRunning reports whether the process of the machine runs.
func (m *Machine) IsRunning(lease.Owner) bool { return m.Crash.IsZero() || time.Now().Before(m.Crash) }

// Now is the time by the clock of the machine.
func (m *Machine) Now() time.Duration {
	return m.Ahead + time.Duration(m.Rate*float64(time.Since(m.Begin)))
}

// Sleep waits by the clock of the machine.
func (m *Machine) Sleep(d time.Duration, stop <-chan struct{}) bool {
	m.Run()
	end := time.NewTimer(m.real(d) + m.Draw(time.Microsecond))
	defer end.Stop()
	select {
	case <-stop:
		return false
	case <-end.C:
		m.Run()
		return true
	}
}

// Read answers from memory for a while, as clients of network file systems do.
func (m *Machine) Read(name string) (text []byte, err error) {
	err = m.operate(func() error {
		if old, ok := m.cache.Load(name); ok && time.Since(old.(remembered).at) < m.Stale {
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

// Create makes a file.
func (m *Machine) Create(name string, text []byte) (lease.File, error) {
	f := &inode{text}
	err := m.operate(func() error {
		m.cache.Delete(name)
		if m.files[name] != nil {
			return os.ErrExist
		}
		m.files[name] = f
		return nil
	})
	return file{m, f}, err
}

// Link gives a file a second name.
func (m *Machine) Link(from, to string) error {
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

// Rename gives a file another name, whether or not there is one with that name.
func (m *Machine) Rename(from, to string) error {
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

// Remove removes a file.
func (m *Machine) Remove(name string) error {
	return m.operate(func() error {
		m.cache.Delete(name)
		if m.files[name] == nil {
			return os.ErrNotExist
		}
		delete(m.files, name)
		return nil
	})
}

// List lists the folder.
func (m *Machine) List(string) (names []string, err error) {
	err = m.operate(func() error {
		for name := range m.files {
			names = append(names, path.Base(name))
		}
		return nil
	})
	return names, err
}

// Lock locks the folder.
func (m *Machine) Lock(string) (release func(), guarded bool, err error) {
	if !m.Guarded {
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

// file is an open file.
type file struct {
	m *Machine
	f *inode
}

// Overwrite replaces the content.
func (f file) Overwrite(text []byte) error {
	return f.m.operate(func() error { f.f.text = text; return nil })
}

// Close does nothing.
func (file) Close() error { return nil }

// Take takes the lease of the folder.
//
// Errors: those of lease.Take.
func (m *Machine) Take() (*lease.Lease, error) { return lease.TakeOn(m, LeaseFile, "the folder") }

// LeaseFile is the name of the lease of a Share.
const LeaseFile = "run.lock"

// Product is the name of what Publishes moves into place. Its text is the token of the writer.
const Product = "product"

// Token identifies the process of the last lease of the machine.
func (m *Machine) Token() string { return m.token }

// Published lists the tokens of the writers of all publications.
func (s *Share) Published() []string { return s.published }

// Begins makes the owner of a lease the writer. It removes what its predecessors have not published.
func (m *Machine) Begins() {
	_ = m.operate(func() error {
		m.began = append(m.began, m.token)
		clear(m.stages)
		return nil
	})
}

// Publishes is one publication of the writer: it prepares a folder, which takes some time, and moves it into place as Product within
// Guard. A publication after another process has begun to write is a fault.
//
// Errors: those of Guard; os.ErrNotExist if the next owner has removed the folder.
func (m *Machine) Publishes(l *lease.Lease) error {
	_ = m.operate(func() error { m.stages[m.token] = true; return nil })
	m.Sleep(m.Draw(3*time.Second)+1, nil) // the work
	return l.Guard(func() error {
		return m.operate(func() error {
			if !m.Guarded && !m.stages[m.token] {
				return os.ErrNotExist
			}
			if last := m.began[len(m.began)-1]; last != m.token {
				m.faults = append(m.faults, fmt.Sprintf("%s publishes after %s has begun to write", m.token, last))
			}
			delete(m.stages, m.token)
			m.files[Product] = &inode{[]byte(m.token)}
			m.cache.Delete(Product)
			m.published = append(m.published, m.token)
			return nil
		})
	})
}

// IsLost reports whether an error is that of a lease that another process has taken meanwhile.
func IsLost(l *lease.Lease, err error) bool {
	return errors.Is(err, lease.ErrHeld) && errors.Is(l.CheckHeld(), lease.ErrHeld)
}
