package product_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
	"github.com/ensemble-weather/ensemble/io/product"
)

// replaceable returns the folder of a Zarr product of one field, and a function that publishes it anew.
func replaceable(t *testing.T) (dir string, replace func() error) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Fields = p.Fields[:1]
	root := t.TempDir()
	pub := product.Publication{Formats: []product.Format{product.Zarr}, Overwrite: product.OverwriteAlways}
	return filepath.Join(root, "2026010100"), func() error {
		_, _, err := product.Publish(context.Background(), nil, root, p, pub)
		return err
	}
}

// TestReplaceWithoutExchange: where folders cannot be exchanged, products are replaced file by file, and nothing else is left.
func TestReplaceWithoutExchange(t *testing.T) {
	dir, replace := replaceable(t)
	if err := errors.Join(replace(), os.WriteFile(filepath.Join(dir, manifest.SumsName), nil, 0o644)); err != nil { // of the old ones
		t.Fatal(err)
	}
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{faultfs.Exchange}, Err: errors.ErrUnsupported})
	err := replace()
	restore()
	if err != nil {
		t.Fatal(err)
	}
	m, err := product.ReadManifest(dir)
	if err == nil {
		err = m.Verify(dir)
	}
	if err != nil {
		t.Error(err)
	}
	if sums, err := os.ReadFile(filepath.Join(dir, manifest.SumsName)); err != nil || len(sums) == 0 {
		t.Errorf("the old sums stay: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("beside the products: %v, %v", left, err)
	}
}

// TestFault21: an error at any operation while products are replaced leaves the old ones or the new ones, whole and without any
// other file: a temporary one would be taken for a file of others, which must stay, so that later products could no longer be
// replaced in one step.
func TestFault21(t *testing.T) {
	dir, replace := replaceable(t)
	if err := replace(); err != nil {
		t.Fatal(err)
	}
	for round := range faultfs.Rounds(faultfs.Fault{Of: faultfs.Changing, Err: unix.ENOSPC}, 1) {
		op, err := round.Run(t, replace)
		if op == nil {
			break
		}
		if err != nil && !errors.Is(err, unix.ENOSPC) || err == nil && op.Kind != faultfs.Remove {
			t.Errorf("%v: %v", op, err)
		}
		m, err := product.ReadManifest(dir)
		if err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		if err := m.Verify(dir); err != nil {
			t.Errorf("%v: %v", op, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		ours := append(m.TopLevelOutputs(), manifest.Name, manifest.SumsName)
		for _, e := range entries {
			if !slices.Contains(ours, e.Name()) {
				t.Errorf("%v: %s is published", op, e.Name())
			}
		}
	}
}

// TestFault43FileByFile: while products are replaced file by file, a link that takes the place of their directory, whenever it
// does, is not followed: nothing changes where it leads, although the same files are there.
func TestFault43FileByFile(t *testing.T) {
	renames := 0
	for n := 1; ; n++ {
		dir, replace := replaceable(t)
		victim, moved := filepath.Join(t.TempDir(), "victim"), filepath.Join(t.TempDir(), "moved")
		if err := errors.Join(replace(), os.WriteFile(filepath.Join(dir, "note.txt"), []byte("mine"), 0o644), os.CopyFS(victim, os.DirFS(dir))); err != nil {
			t.Fatal(err)
		}
		before, err := powerfail.ReadTree(victim)
		if err != nil {
			t.Fatal(err)
		}
		count, last := 0, faultfs.Operation{}
		swap := func(o faultfs.Operation) bool {
			// files within the stage are not published yet
			if in := filepath.Dir(o.Path); o.Kind != faultfs.Rename && o.Path != dir && in != dir || o.Kind == faultfs.Rename && filepath.Dir(filepath.Dir(o.Path)) != filepath.Dir(dir) {
				return false
			}
			if count++; count == n {
				last = o
				if err := errors.Join(os.Rename(dir, moved), os.Symlink(victim, dir)); err != nil {
					t.Fatal(err)
				}
			}
			return false
		}
		_, restore := faultfs.Use(faultfs.Fault{At: swap})
		err = replace()
		restore()
		if count < n {
			break
		}
		if after, e := powerfail.ReadTree(victim); e != nil || !maps.EqualFunc(before, after, bytes.Equal) {
			t.Errorf("a link at operation %d, %v: written where it leads: %v, %v", n, last, e, err)
		}
		if code := exit.CodeOf(err); err != nil && code != exit.CannotWrite && code != exit.IO {
			t.Errorf("a link at operation %d, %v: %v", n, last, err)
		}
		if last.Kind == faultfs.Rename {
			renames++
		}
	}
	if renames < 8 { // of manifest, checksums, metadata and arrays, out and in
		t.Errorf("only %d renames were disturbed", renames)
	}
}
