package desk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRendererIsBounded: at most MaxDrawing parts are drawn at once, requests for the same part share one drawing, and
// further requests are refused while maxWaiting are waiting.
func TestRendererIsBounded(t *testing.T) {
	r := newRenderer()
	var now, most, drawn atomic.Int32
	release := make(chan struct{})
	draw := func(context.Context) (any, int, error) {
		drawn.Add(1)
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		<-release
		now.Add(-1)
		return "drawn", 1, nil
	}
	var g sync.WaitGroup
	for k := range 2 * maxWaiting {
		g.Go(func() {
			if v, err := r.get(t.Context(), fmt.Sprint(k/2), draw); err != nil || v != "drawn" {
				t.Errorf("part %d: %v, %v", k/2, v, err)
			}
		})
	}
	for begun := false; !begun; {
		r.mu.Lock()
		begun = len(r.running) == maxWaiting
		r.mu.Unlock()
	}
	if _, err := r.get(t.Context(), "another", draw); !errors.Is(err, errBusy) {
		t.Errorf("beyond the limit: %v", err)
	}
	close(release)
	g.Wait()
	if most.Load() > MaxDrawing || drawn.Load() != maxWaiting {
		t.Errorf("%d at once, %d drawn; want at most %d, and %d", most.Load(), drawn.Load(), MaxDrawing, maxWaiting)
	}
}

// TestRendererEnds: a request that is given up ends at once, and its part is drawn nevertheless; a panic is an error of one
// part; errors are not kept.
func TestRendererEnds(t *testing.T) {
	r := newRenderer()
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.get(ctx, "a", func(context.Context) (any, int, error) { <-release; return 1, 1, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
	close(release)
	if v, err := r.get(t.Context(), "a", func(context.Context) (any, int, error) { return 2, 1, nil }); err != nil || v != 1 {
		t.Errorf("the part that was drawn meanwhile: %v, %v", v, err)
	}
	if _, err := r.get(t.Context(), "b", func(context.Context) (any, int, error) { panic("damaged") }); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a panic: %v", err)
	}
	if v, err := r.get(t.Context(), "b", func(context.Context) (any, int, error) { return 3, 1, nil }); err != nil || v != 3 {
		t.Errorf("after a panic: %v, %v", v, err)
	}
}

// TestRendererForgets: the cache has at most cacheBytes, and keeps what was used last.
func TestRendererForgets(t *testing.T) {
	r := newRenderer()
	drawn := 0
	get := func(key string, bytes int) {
		t.Helper()
		if _, err := r.get(t.Context(), key, func(context.Context) (any, int, error) { drawn++; return key, bytes, nil }); err != nil {
			t.Fatal(err)
		}
	}
	get("a", cacheBytes/2)
	get("b", cacheBytes/2)
	get("a", 0)
	get("c", cacheBytes/2) // in place of b
	get("a", 0)
	if drawn != 3 || r.bytes > cacheBytes || len(r.kept) != 2 || r.latest.Len() != 2 {
		t.Errorf("%d drawn, %d bytes, %d kept", drawn, r.bytes, len(r.kept))
	}
	get("b", cacheBytes+1) // larger than the cache
	if drawn != 4 || r.bytes > cacheBytes {
		t.Errorf("%d drawn, %d bytes", drawn, r.bytes)
	}
}

// TestRendererIsLimited: a drawing that takes too long is stopped, and is an error that says so. Its slot is free again.
func TestRendererIsLimited(t *testing.T) {
	r := newRenderer()
	r.limit = time.Millisecond
	for k := range 2 * MaxDrawing {
		if _, err := r.get(t.Context(), fmt.Sprint(k), func(ctx context.Context) (any, int, error) { <-ctx.Done(); return nil, 0, ctx.Err() }); !errors.Is(err, errSlow) && !errors.Is(err, errBusy) {
			t.Errorf("a drawing without an end: %v", err)
		}
	}
	r.limit = drawLimit
	if v, err := r.get(t.Context(), "next", func(context.Context) (any, int, error) { return 1, 1, nil }); err != nil || v != 1 {
		t.Errorf("the next: %v, %v", v, err)
	}
}
