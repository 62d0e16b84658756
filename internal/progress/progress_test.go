package progress

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPlain: a task of 600 steps, one per second, prints one line per minute and a
// last one. Lines are complete and have no control characters.
func TestPlain(t *testing.T) {
	var b bytes.Buffer
	r := New(&b, Auto, time.Minute) // a buffer is no terminal
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	task := r.Start("train", 600)
	for i := int64(1); i <= 600; i++ {
		now = now.Add(time.Second)
		task.Set(i, "loss 0.5")
	}
	task.Done()
	task.Done()
	r.Close()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 11 {
		t.Fatalf("%d lines, want 10 and a last one:\n%s", len(lines), b.String())
	}
	if lines[0] != "train 60/600 10 % loss 0.5, 1/s, 9m0s left" || lines[10] != "train 600/600 100 % loss 0.5, 1/s, 10m0s" {
		t.Errorf("first %q, last %q", lines[0], lines[10])
	}
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Errorf("control characters in %q", b.String())
	}
}

// TestUnknownTotal: without a total the count and the elapsed time are shown, if the task took a second.
func TestUnknownTotal(t *testing.T) {
	var b bytes.Buffer
	r := New(&b, Plain, time.Hour)
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	r.Start("quick", 0).Done()
	task := r.Start("generate", 0)
	now = now.Add(2 * time.Second)
	task.Set(7, "")
	task.Done()
	r.Close()
	if got := b.String(); got != "generate 7, 3.5/s, 2s\n" {
		t.Errorf("printed %q", got)
	}
}

// TestNested: a task within another one is shown in the same line and leaves none of its own.
func TestNested(t *testing.T) {
	var b bytes.Buffer
	r := New(&b, Bar, 0)
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	outer := r.Start("train", 10)
	outer.Set(5, "loss 0.5")
	inner := r.Start("validate", 4)
	now = now.Add(2 * time.Second)
	inner.Add(1)
	r.mu.Lock()
	r.draw()
	r.mu.Unlock()
	inner.Done()
	outer.Done()
	r.Close()
	if got := b.String(); !strings.Contains(got, "train 50 % > validate [####............] 1/4 25 %, 0.5/s, 6s left") || strings.Count(got, "\n") != 1 || !strings.Contains(got, "\rtrain") && !strings.Contains(got, "\x1b[Ktrain 5/10 50 % loss 0.5, 2.5/s, 2s\n") {
		t.Errorf("printed %q", got)
	}
}

// TestSilent: the line on a terminal is updated although nothing is reported, and is gone after Close.
func TestSilent(t *testing.T) {
	var b syncBuffer
	r := New(&b, Bar, 0)
	r.Start("compile", 0)
	deadline := time.Now().Add(10 * time.Second)
	for strings.Count(b.String(), "\r") < 3 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	r.Close()
	if got := b.String(); strings.Count(got, "compile, ") < 3 || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("printed %q", got)
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestRecord: events come at the interval and at the end, also without a display; those of nested and short tasks do not.
func TestRecord(t *testing.T) {
	r := New(&bytes.Buffer{}, None, time.Minute)
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	var got []Event
	r.Record(func(e Event) { got = append(got, e) })
	ctx := With(context.Background(), r)
	task := Start(ctx, "train", 120)
	Start(ctx, "compile", 0).Done()
	for i := range int64(120) {
		now = now.Add(time.Second)
		task.Set(i+1, "")
	}
	task.Done()
	Start(ctx, "write", 0).Done()
	r.Close()
	if len(got) != 3 || got[0].Done != 60 || got[0].Left != time.Minute || got[0].Rate != 1 || got[0].Final || !got[2].Final || got[2].Total != 120 {
		t.Errorf("events %+v", got)
	}
	Start(context.Background(), "read", 1).Set(1, "") // without a Reporter
}

func TestNone(t *testing.T) {
	var b bytes.Buffer
	for _, r := range []*Reporter{New(&b, None, time.Nanosecond), nil} {
		task := r.Start("train", 2)
		task.Set(2, "x")
		task.Done()
		r.Close()
	}
	if b.Len() > 0 {
		t.Errorf("printed %q", b.String())
	}
}

// TestLive: each task has one text, which is updated, and ends with the elapsed
// time.
func TestLive(t *testing.T) {
	var shown [2][]string
	r := NewLive(func(task int, text string) { shown[task] = append(shown[task], text) })
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	for range 2 {
		task := r.Start("train", 10)
		for i := int64(1); i <= 10; i++ {
			now = now.Add(100 * time.Millisecond)
			task.Set(i, "")
		}
		task.Done()
	}
	quick := r.Start("read", 1)
	quick.Set(1, "")
	quick.Done() // shows nothing, or there would be a third text
	for i, texts := range shown {
		if len(texts) != 4 || texts[0] != "train 3/10 30 %, 1s left" || texts[3] != "train 10/10 100 %, 10/s, 1s" {
			t.Errorf("task %d showed %q, want three texts a second and a last one", i, texts)
		}
	}
}
