package liveness

import (
	"sync"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Task is an additional goroutine of a process, which counts as running until it ends. A nil Task is the main goroutine.
type Task struct {
	m     *Monitor
	once  sync.Once
	stop  chan struct{}
	ended chan struct{}
}

// NewTask returns a task that has not started.
func (m *Monitor) NewTask() *Task {
	return &Task{m: m, stop: make(chan struct{}), ended: make(chan struct{})}
}

// Start calls f in the goroutine.
func (t *Task) Start(f func()) {
	t.m.waits.add(1)
	go func() {
		defer close(t.ended)
		defer t.m.waits.add(-1)
		f()
	}()
}

// Wait waits for the end of the goroutine.
func (t *Task) Wait(comm.Transport) {
	defer t.m.waits.begin(OwnProcess)()
	<-t.ended
}

// Cancel makes current and later waits of the goroutine fail.
func (t *Task) Cancel() { t.once.Do(func() { close(t.stop) }) }

// Stopped returns a channel that is closed by Cancel; nil for the main goroutine.
func (t *Task) Stopped() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.stop
}

// IsCanceled reports whether Cancel was called; false for the main goroutine.
func (t *Task) IsCanceled() bool {
	select {
	case <-t.Stopped():
		return true
	default:
		return false
	}
}
