package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// content is the text of a file.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	runtest.Must(t, err)
	return string(text)
}

// names lists a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	runtest.Must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// writes returns a function that writes a text.
func writes(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}

// TestPublishFile: a file is published under its lease, with nothing left beside it; what a killed process left of the same file is
// removed, that of another file not. After an error the old file remains, and the error has its path.
func TestPublishFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.sums")
	runtest.Must(t, errors.Join(os.WriteFile(filepath.Join(dir, ".a.sums.partial-1"), nil, 0o644), os.WriteFile(filepath.Join(dir, ".b.sums.partial-1"), nil, 0o644)))
	rundirtest.CheckPublished(t, dir, func() { runtest.Must(t, publishFile(path, writes("one"))) })
	if got := strings.Join(names(t, dir), " "); got != ".b.sums.partial-1 a.sums" || content(t, path) != "one" {
		t.Errorf("%s: %q", got, content(t, path))
	}
	err := publishFile(path, func(to string) error {
		if err := publishFile(path, writes("two")); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("a second writer: %v", err)
		}
		return &exit.Error{Code: exit.IO, At: to}
	})
	if e := (*exit.Error)(nil); !errors.As(err, &e) || e.At != path {
		t.Errorf("%v, want an error at %s", err, path)
	}
	if got := strings.Join(names(t, dir), " "); got != ".b.sums.partial-1 a.sums" || content(t, path) != "one" {
		t.Errorf("after an error %s: %q", got, content(t, path))
	}
}

// TestPublishFileSuspended: a process that was suspended while it prepared a file, until another one took the lease and published,
// publishes nothing.
func TestPublishFileSuspended(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fields.nc")
	err := publishFile(path, func(to string) error {
		runtest.Must(t, writes("late")(to))
		runtest.Must(t, os.Remove(filepath.Join(dir, ".fields.nc.lock"))) // as the next owner does, which also removes the folder of this one
		return publishFile(path, writes("next"))
	})
	if !errors.Is(err, lease.ErrHeld) || exit.CodeOf(err) != exit.CannotWrite || content(t, path) != "next" {
		t.Errorf("%v: the file has %q", err, content(t, path))
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}

// TestVerifiedWithinLease: wherever a verification is suspended while it publishes scores, scores by place, score fields or sums, no
// other process can take the place of the file over; those of joined sums too.
func TestVerifiedWithinLease(t *testing.T) {
	p := startPublishing(t)
	an := p.analyses("an.nc", 3)
	products := p.publish("products", func([]float32) []product.Field { return nil })
	dir := filepath.Join(p.dir, "results")
	runtest.Must(t, os.Mkdir(dir, 0o755))
	sums := filepath.Join(dir, "all.sums")
	b := significance.Bootstrap{Resamples: 20}
	rundirtest.CheckPublished(t, dir, func() {
		r, err := Run(context.Background(), Options{Forecast: products, Analysis: an, Members: p.rawMembers(4), Bootstrap: b, Out: filepath.Join(dir, "scores"),
			Fields: filepath.Join(dir, "fields.nc"), Sums: sums})
		runtest.Must(t, err)
		for _, path := range r.Outputs {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
		if n := len(r.Outputs); n < 9 || filepath.Base(r.Outputs[n-3]) != "example.safetensors" || r.Outputs[n-1] != sums {
			t.Errorf("outputs %q", r.Outputs)
		}
	})
	rundirtest.CheckPublished(t, dir, func() {
		_, err := JoinSums(JoinOptions{Files: []string{sums}, Bootstrap: b, Sums: filepath.Join(dir, "joined.sums")})
		runtest.Must(t, err)
	})
	if got := strings.Join(names(t, dir), " "); got != "all.sums fields.nc joined.sums scores" {
		t.Errorf("left: %s", got)
	}
}
