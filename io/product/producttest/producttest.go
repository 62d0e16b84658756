// Package producttest writes finished products for tests, without a forecast.
package producttest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Write writes degraded products of an initialisation below out, of one file with the given content, which is also the
// version in the manifest.
func Write(t *testing.T, out, name, content string) {
	t.Helper()
	init, ok := product.ParseInitName(name)
	if !ok {
		t.Fatalf("%q is not the name of an initialisation", name)
	}
	dir := filepath.Join(out, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := name + "_048h.nc"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	m := (&product.Publication{Degraded: true, Warnings: []string{"a warning"}, ExpectedMembers: 3, CompleteMembers: 2, MissingMembers: []product.MissingMember{{Member: 2, Reason: "late"}}}).
		Manifest(&product.Product{Init: init, Grid: &ensemble.Grid{}, Metadata: product.Metadata{Version: content, ModelChecksum: "sha256:1"}})
	m.End = init.Time
	var err error
	if m.Outputs, err = manifest.SumBelow(dir, []string{file}); err == nil {
		err = manifest.Write(dir, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.Init != init.Format(time.RFC3339) {
		t.Fatalf("initialisation %s of %s", m.Init, name)
	}
}
