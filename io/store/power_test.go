package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
)

// TestFault24: the power fails at any moment while a store is written, also over another one. The new one is whole or absent,
// the old one whole until then, where folders can be exchanged; the new one is there once Write has returned, and the next run gives the same
// bytes. One state in four is completed.
func TestFault24(t *testing.T) {
	dir := t.TempDir()
	before := ""
	for i, storage := range []Storage{Int16, BFloat16, Float32} { // each replaces the one before it, the last one file by file
		p, _ := plan(storage, 4)
		o := sizes(p)
		o.Workers, o.Overwrite = 1, i > 0 // the same order of operations in each run
		exchanged := i < 2
		l := powerfail.Run(t, dir, func(*powerfail.Recorder) error {
			if !exchanged {
				defer withoutExchange()()
			}
			_, err := Write(context.Background(), filepath.Join(dir, "store"), p, o)
			return err
		})
		want := digests(t, filepath.Join(dir, "store"))
		n := 0
		check := func(dir string, s powerfail.State) error {
			dir = filepath.Join(dir, "store")
			if err := checkWhole(t, dir, before, want, s.Point == len(l.Ops)); err != nil && (exchanged || exit.CodeOf(err) != exit.NotYet) {
				return err
			}
			if n++; n%4 > 0 {
				return nil
			}
			if err := os.RemoveAll(filepath.Join(dir, "run.lock")); err != nil { // its owner, this process, lives
				return err
			}
			if _, err := Write(context.Background(), dir, p, o); err != nil {
				return err
			}
			if got := digests(t, dir); got != want {
				return fmt.Errorf("completed:\n%s\nwant\n%s", got, want)
			}
			return onlyStore(dir)
		}
		l.Check(t, l.Some(1, 40), check)
		if turn := []string{"", "exchange", "remove store/" + metaName}[i]; turn != "" {
			at := slices.IndexFunc(l.Ops, func(o powerfail.Op) bool { return strings.HasPrefix(o.String(), turn) })
			if at < 0 {
				t.Fatalf("no %s", turn)
			}
			for end := at + 1; end <= min(at+8, len(l.Ops)); end++ { // the new store takes the place of the old one
				moment := powerfail.Log{Before: l.Before, Ops: l.Ops[:end]}
				moment.Check(t, moment.Final(1, 5), check)
			}
		}
		before = want
	}
}

// withoutExchange makes names that cannot be exchanged, until restore is called.
func withoutExchange() (restore func()) {
	_, restore = faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{faultfs.Exchange}, Err: errors.ErrUnsupported})
	return restore
}

// checkWhole checks that a folder has the store with the digests before, or the one with those after; none if there was none
// before. done: it must be the latter.
func checkWhole(t *testing.T, dir, before, after string, done bool) error {
	t.Helper()
	st, err := Open(context.Background(), dir, OpenOptions{})
	if err == nil {
		st.Close()
		if got := without(digests(t, dir), "run.lock", ".run.lock", journalDir); got != after && (got != before || done) {
			return fmt.Errorf("neither the old nor the new store:\n%s\nwant\n%s\nor\n%s", got, before, after)
		}
		return nil
	}
	if before == "" && exit.CodeOf(err) == exit.NotYet && !done {
		return nil
	}
	return err
}

// without leaves files whose names begin with one of the names out of digests.
func without(digests string, names ...string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(digests, "\n"), func(line string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name) })
	}), "\n")
}

// onlyStore returns an error if there is something beside a store.
func onlyStore(dir string) error {
	all, err := os.ReadDir(filepath.Dir(dir))
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("beside the store: %v", all)
	}
	return err
}

// TestReplaceInterrupted: whatever operation on files fails or kills the process while a store replaces another one, the
// folder has the old store or the new one, whole, and the next run completes the new one without help. In the second turn
// folders cannot be exchanged: then the folder may have no store, but never a part of one.
func TestReplaceInterrupted(t *testing.T) {
	p, o := tiny(BFloat16, 2)
	o.Overwrite = true
	old, oldSizes := tiny(Int16, 3)
	template, fresh := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	write(t, template, old, oldSizes)
	write(t, fresh, p, o)
	before, after := digests(t, template), digests(t, fresh)
	for _, exchange := range []bool{true, false} {
		for round := range faultfs.Rounds(faultfs.Fault{Of: faultfs.Changing, Err: unix.ENOSPC}, 1) {
			round.Part = round.N%2 == 0
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
				t.Fatal(err)
			}
			restoreExchange := func() {}
			if !exchange {
				restoreExchange = withoutExchange()
			}
			hit, err := round.Run(t, func() error { _, err := Write(context.Background(), dir, p, o); return err })
			if hit != nil && err != nil && exit.CodeOf(err) != exit.IO {
				t.Errorf("%s of %s: %v", hit.Kind, hit.Path, err)
			}
			if hit != nil && err == nil && needed(hit) {
				t.Errorf("%s of %s fails, and it is no error", hit.Kind, hit.Path)
			}
			if err := checkWhole(t, dir, before, after, err == nil); err != nil && (exchange || exit.CodeOf(err) != exit.NotYet) {
				t.Errorf("%v: %v", hit, err)
			}
			if hit != nil && ofLease(hit) {
				if err := os.RemoveAll(filepath.Join(dir, "run.lock")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Write(context.Background(), dir, p, o); err != nil {
				t.Errorf("%v: the next run: %v", hit, err)
			}
			if err := errors.Join(checkWhole(t, dir, before, after, true), onlyStore(dir)); err != nil {
				t.Errorf("%v: after the next run: %v", hit, err)
			}
			restoreExchange()
		}
	}
}

// TestReplaceRefused: a store with files of others is not replaced, and nothing of it is removed. A link is replaced where it leads.
func TestReplaceRefused(t *testing.T) {
	old, _ := plan(Int16, 4)
	p, _ := plan(BFloat16, 4)
	o := sizes(p)
	o.Overwrite = true
	for _, name := range []string{"thesis.tex", "shards/notes.txt"} {
		dir := filepath.Join(t.TempDir(), "store")
		write(t, dir, old, sizes(old))
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		before := digests(t, dir)
		if _, err := Write(context.Background(), dir, p, o); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), name) || digests(t, dir) != before {
			t.Errorf("%s: %v, or the store changed", name, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	write(t, dir, old, sizes(old))
	beside := filepath.Join(filepath.Dir(dir), ".store"+replacementName)
	if err := os.WriteFile(beside, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(context.Background(), dir, p, o); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "is no folder") {
		t.Errorf("a file in the place of the new store: %v", err)
	}
	if text, err := os.ReadFile(beside); err != nil || string(text) != "mine" {
		t.Errorf("the file has %q, %v", text, err)
	}
	dir = t.TempDir()
	real, link := filepath.Join(dir, "disk", "store"), filepath.Join(dir, "link")
	write(t, real, old, sizes(old))
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	write(t, link, p, o)
	st, err := os.Lstat(link)
	if err != nil || st.Mode()&os.ModeSymlink == 0 || open(t, real, OpenOptions{}).Storage != BFloat16 {
		t.Errorf("the link: %v, %v", st, err)
	}
	if err := onlyStore(real); err != nil {
		t.Error(err)
	}
}
