package progress

import (
	"bytes"
	"strings"
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
	if lines[0] != "train 60/600 10 % loss 0.5, 9m0s left" || lines[10] != "train 600/600 100 % loss 0.5, 10m0s" {
		t.Errorf("first %q, last %q", lines[0], lines[10])
	}
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Errorf("control characters in %q", b.String())
	}
}

// TestUnknownTotal: without a total only the count is shown.
func TestUnknownTotal(t *testing.T) {
	var b bytes.Buffer
	task := New(&b, Plain, time.Hour).Start("generate", 0)
	task.Set(7, "")
	task.Done()
	if got := b.String(); !strings.HasPrefix(got, "generate 7, ") {
		t.Errorf("printed %q", got)
	}
}

func TestBar(t *testing.T) {
	var b bytes.Buffer
	r := New(&b, Bar, 0)
	whole, half := r.Start("read", 10), r.Start("train", 10)
	whole.Set(10, "")
	half.Set(5, "loss 0.5")
	whole.Done()
	half.Done()
	r.Close()
	for _, want := range []string{"read 10/10", "train 5/10", "loss 0.5"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
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
		if len(texts) != 4 || texts[0] != "train 3/10 30 %, 1s left" || texts[3] != "train 10/10 100 %, 1s" {
			t.Errorf("task %d showed %q, want three texts a second and a last one", i, texts)
		}
	}
}
