package product_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
	"github.com/ensemble-weather/ensemble/io/product"
)

// TestRemoveAbandoned: what owners of the lock left, also if a power failure lost its name, is removed; files of other
// initialisations and of a living owner stay.
func TestRemoveAbandoned(t *testing.T) {
	init := ensemble.InitAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, left := range []string{".2026010100.lock", ".2026010100.lock-ab12", ".2026010100.lock-ab12-dead", ".2026010100.partial-x"} {
		dir := t.TempDir()
		all := powerfail.Tree{left: nil, "2026010100/": nil, "2026010100/f": nil, ".2026010112.partial-x": nil, ".2026010112.lock-ab12": nil}
		if err := all.WriteTo(dir); err != nil {
			t.Fatal(err)
		}
		if err := product.RemoveAbandoned(dir, init); err != nil {
			t.Errorf("%s: %v", left, err)
		}
		delete(all, left)
		got, err := powerfail.ReadTree(dir)
		if err != nil || len(got) != len(all) || got[left] != nil {
			t.Errorf("after %s: %v, %v", left, got, err)
		}
	}
	dir := t.TempDir()
	lock, err := product.Lock(dir, init)
	if err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(dir, ".2026010100.partial-x")
	if err := os.Mkdir(stage, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := product.RemoveAbandoned(dir, init); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stage); err != nil {
		t.Errorf("of a living owner: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}
