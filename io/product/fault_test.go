package product_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
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
