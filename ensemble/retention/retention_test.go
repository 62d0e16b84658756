package retention

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/io/product/producttest"
)

// now is the clock of the tests.
var now = time.Date(2026, 1, 10, 6, 0, 0, 0, time.UTC)

// tenDays writes products of 00 UTC of the first ten days of January 2026.
func tenDays(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	for d := 1; d <= 10; d++ {
		producttest.Write(t, out, fmt.Sprintf("202601%02d00", d), strings.Repeat("x", 100*d))
	}
	return out
}

// visible lists the names in a product directory that are not hidden.
func visible(t *testing.T, out string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func names(list []Init) (out []string) {
	for _, i := range list {
		out = append(out, i.Name)
	}
	return out
}

// link makes a symbolic link.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// TestLimits: an initialisation stays that age or number keeps; a report and a removal find the same.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Options
		oldest string // that stays
	}{
		{"age", Options{MaxAge: 3 * 24 * time.Hour}, "2026010800"},
		{"age, to the second", Options{MaxAge: 3*24*time.Hour + 6*time.Hour}, "2026010700"},
		{"number", Options{KeepLast: 4}, "2026010700"},
		{"the longer of both is the number", Options{MaxAge: 24 * time.Hour, KeepLast: 4}, "2026010700"},
		{"the longer of both is the age", Options{MaxAge: 5 * 24 * time.Hour, KeepLast: 2}, "2026010600"},
		{"the newest stays, whatever its age", Options{MaxAge: time.Hour}, "2026011000"},
		{"nothing is old", Options{MaxAge: 1000 * time.Hour}, "2026010100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := tenDays(t)
			before := visible(t, out)
			var want []string
			for _, n := range before {
				if n < c.oldest {
					want = append(want, n)
				}
			}
			c.o.Out, c.o.Now = out, now
			report, err := Prune(c.o)
			if err != nil || report.Removed || !slices.Equal(names(report.Pruned), want) || report.Kept != 10-len(want) || len(report.Held) != 0 {
				t.Fatalf("%+v, %v; want %q", report, err, want)
			}
			if left := visible(t, out); !slices.Equal(left, before) {
				t.Fatalf("a report removed something: %q", left)
			}
			c.o.Remove = true
			done, err := Prune(c.o)
			if err != nil || !done.Removed || !slices.Equal(names(done.Pruned), want) || done.Bytes != report.Bytes || done.Kept != report.Kept {
				t.Fatalf("%+v, %v; want as %+v", done, err, report)
			}
			if left := visible(t, out); !slices.Equal(left, before[len(want):]) {
				t.Errorf("left %q", left)
			}
			if _, err := os.Lstat(filepath.Join(out, trashDir)); err == nil {
				t.Error("the trash stays")
			}
			pruned, err := ReadPruned(out)
			if err != nil || len(pruned) != len(want) {
				t.Errorf("recorded %v, %v", pruned, err)
			}
			for _, n := range want {
				if !pruned[n].Equal(now) {
					t.Errorf("%s was pruned %s", n, pruned[n])
				}
			}
		})
	}
}

// TestHeld: old initialisations stay that a link leads to, that another process writes, that are unfinished or damaged, and
// those with a reason of the caller; each with its reason. What has another name, and links with the name of an initialisation, are not
// looked at.
func TestHeld(t *testing.T) {
	out := tenDays(t)
	at := func(name string) string { return filepath.Join(out, name) }
	link(t, "2026010100", at("latest"))
	link(t, filepath.Join(out, "2026010200", "2026010200_048h.nc"), at("links/by-name/field.nc"))
	link(t, "latest", at("newest")) // a link to a link
	link(t, "2025010100", at("dangling"))
	elsewhere := t.TempDir()
	producttest.Write(t, elsewhere, "2025123100", "x")
	link(t, filepath.Join(elsewhere, "2025123100"), at("2025123100"))
	lock, err := product.Lock(out, ensemble.InitAt(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := os.Remove(at("2026010400/manifest.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("2026010500/manifest.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"notes", "20260101", "2026013200", "202601010000"} {
		if err := os.Mkdir(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Out: out, MaxAge: 36 * time.Hour, Held: map[string]string{"2026010600": "to be decided"}, Now: now}
	for _, o.Remove = range []bool{false, true} {
		r, err := Prune(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(r.Pruned); !slices.Equal(got, []string{"2026010700", "2026010800"}) {
			t.Errorf("pruned %q", got)
		}
		why := map[string]string{}
		for _, h := range r.Held {
			why[h.Name] = h.Why
		}
		for name, want := range map[string]string{"2026010100": "leads to it", "2026010200": "links/by-name/field.nc", "2026010300": "another process is writing it", "2026010400": "no manifest",
			"2026010500": "the manifest is damaged", "2026010600": "to be decided"} {
			if !strings.Contains(why[name], want) {
				t.Errorf("%s: %q, want %q", name, why[name], want)
			}
		}
		if len(why) != 6 {
			t.Errorf("%v", why)
		}
	}
	for _, name := range []string{"notes", "20260101", "2026013200", "202601010000", "2025123100", "latest", "2026010100", "2026010900"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "2025123100", "manifest.json")); err != nil {
		t.Errorf("behind a link: %v", err)
	}
}

// TestHeldInLinkedFolder: what a link leads to stays also if the product directory is the working directory, reached by a link.
func TestHeldInLinkedFolder(t *testing.T) {
	out := tenDays(t)
	link(t, "2026010100", filepath.Join(out, "latest"))
	link(t, out, filepath.Join(out, "..", "products"))
	t.Chdir(filepath.Join(out, "..", "products"))
	r, err := Prune(Options{Out: ".", MaxAge: 36 * time.Hour, Remove: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("latest/manifest.json"); err != nil || len(r.Held) != 1 || r.Held[0].Name != "2026010100" {
		t.Errorf("held %+v, %v", r.Held, err)
	}
}

// TestFuture: an initialisation in the future stays and is not the newest.
func TestFuture(t *testing.T) {
	out := tenDays(t)
	producttest.Write(t, out, "2031010100", "x")
	r, err := Prune(Options{Out: out, KeepLast: 1, Remove: true, Now: now})
	if left := visible(t, out); err != nil || len(r.Pruned) != 9 || !slices.Equal(left, []string{"2026011000", "2031010100"}) {
		t.Errorf("%+v, %v; left %q", r, err, left)
	}
}

// TestKilled: a run that was killed at any step leaves products that are whole or gone; the next run completes the removal.
func TestKilled(t *testing.T) {
	init := ensemble.InitAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	steps := []struct {
		name string
		do   func(out string) error
	}{
		{"recorded", func(out string) error {
			if err := os.Mkdir(filepath.Join(out, product.StateDir), 0o755); err != nil {
				return err
			}
			return recordPruned(out, "2026010100", now)
		}},
		{"renamed", func(out string) error {
			if err := os.Mkdir(filepath.Join(out, trashDir), 0o755); err != nil {
				return err
			}
			return os.Rename(product.InitDir(out, init), filepath.Join(out, trashDir, "2026010100"))
		}},
		{"partly deleted", func(out string) error { return os.Remove(filepath.Join(out, trashDir, "2026010100", "manifest.json")) }},
	}
	for n := range len(steps) + 1 {
		out := tenDays(t)
		for _, s := range steps[:n] {
			if err := s.do(out); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		r, err := Prune(Options{Out: out, KeepLast: 9, Remove: true, Now: now})
		want := 1
		if n >= 2 { // it was renamed
			want = 0
		}
		if err != nil || len(r.Pruned) != want {
			t.Errorf("after %d steps: %+v, %v", n, r, err)
		}
		for _, path := range []string{product.InitDir(out, init), filepath.Join(out, trashDir)} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("after %d steps %s stays", n, path)
			}
		}
		if pruned, err := ReadPruned(out); err != nil || len(pruned) != 1 {
			t.Errorf("after %d steps: recorded %v, %v", n, pruned, err)
		}
	}
}

// TestRefusals: no limit, no directory, a directory that another run prunes, a damaged list.
func TestRefusals(t *testing.T) {
	out := tenDays(t)
	if _, err := Prune(Options{Out: out}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("no limit: %v", err)
	}
	if _, err := Prune(Options{Out: filepath.Join(out, "none"), KeepLast: 1}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no directory: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(PrunedFile(out)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(PrunedFile(out), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Prune(Options{Out: out, KeepLast: 1, Remove: true, Now: now}); exit.CodeOf(err) != exit.BadData || len(visible(t, out)) != 10 {
		t.Errorf("a damaged list: %v, %d left", err, len(visible(t, out)))
	}
}

func ExamplePrune() {
	out, err := os.MkdirTemp("", "products")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(out)
	r, err := Prune(Options{Out: out, MaxAge: 30 * 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(r.Pruned), "would be removed,", r.Kept, "stay")
	// Output: 0 would be removed, 0 stay
}
