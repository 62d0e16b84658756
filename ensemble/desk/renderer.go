package desk

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits of drawing.
const (
	MaxDrawing = 2                // maps and meteograms at once
	maxWaiting = 32               // drawn or waiting for it
	drawLimit  = 30 * time.Second // of renderer.limit
	cacheBytes = 64 << 20
)

// Errors of drawing for want of time.
var (
	errBusy = errors.New("too many maps are being drawn now: try again in a minute")
	errSlow = fmt.Errorf("it took more than %s: choose another map, or try again in a minute", drawLimit)
)

// renderer draws parts of the page, a limited number at once, and keeps the latest. The zero value is not ready; see
// newRenderer.
type renderer struct {
	slots chan struct{}
	limit time.Duration // of one drawing, and of waiting for one

	mu      sync.Mutex
	running map[string]*drawing
	kept    map[string]*list.Element
	latest  *list.List // of *kept, the most recently used first
	bytes   int
}

// drawing is a part that is being drawn. value and err are valid after done is closed.
type drawing struct {
	done  chan struct{}
	value any
	err   error
}

// kept is a part in the cache.
type kept struct {
	key   string
	value any
	bytes int
}

func newRenderer() *renderer {
	return &renderer{slots: make(chan struct{}, MaxDrawing), limit: drawLimit, running: map[string]*drawing{}, kept: map[string]*list.Element{}, latest: list.New()}
}

// get returns a part from the cache, or draws it. Requests for a part that is being drawn wait for it. draw returns the
// part and its size in memory. It continues when the requests that wait for it end, until the limit.
//
// Errors: those of draw, panics included; errBusy; errSlow; ctx.Err().
func (r *renderer) get(ctx context.Context, key string, draw func(ctx context.Context) (value any, bytes int, err error)) (any, error) {
	r.mu.Lock()
	if e := r.kept[key]; e != nil {
		r.latest.MoveToFront(e)
		r.mu.Unlock()
		return e.Value.(*kept).value, nil
	}
	d := r.running[key]
	if d == nil {
		if len(r.running) >= maxWaiting {
			r.mu.Unlock()
			return nil, errBusy
		}
		d = &drawing{done: make(chan struct{})}
		r.running[key] = d
		bounded, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), r.limit, errSlow)
		go func() {
			defer cancel()
			r.run(bounded, key, d, draw)
		}()
	}
	r.mu.Unlock()
	limit := time.NewTimer(r.limit + time.Second) // later than the drawing itself, which has the better error
	defer limit.Stop()
	select {
	case <-d.done:
		return d.value, d.err
	case <-limit.C:
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run draws a part when a slot is free.
func (r *renderer) run(ctx context.Context, key string, d *drawing, draw func(ctx context.Context) (any, int, error)) {
	bytes := 0
	defer func() {
		if p := recover(); p != nil { // saved fields may be damaged in ways that no check knows
			d.err = fmt.Errorf("internal error: %v", p)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, key)
		if d.err == nil {
			r.keep(&kept{key, d.value, bytes})
		}
		close(d.done)
	}()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		if d.value, bytes, d.err = draw(ctx); d.err != nil && context.Cause(ctx) == errSlow {
			d.err = errSlow
		}
	case <-ctx.Done():
		d.err = errBusy
	}
}

// keep adds a part to the cache, and removes the least recently used ones beyond cacheBytes. The lock is held.
func (r *renderer) keep(k *kept) {
	r.kept[k.key] = r.latest.PushFront(k)
	for r.bytes += k.bytes; r.bytes > cacheBytes; {
		last := r.latest.Back()
		old := r.latest.Remove(last).(*kept)
		delete(r.kept, old.key)
		r.bytes -= old.bytes
	}
}
