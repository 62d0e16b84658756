package decode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// A child opens files of the folders that requests named as theirs, and no others; it writes none, and encodes products to memory.
func TestSandbox(t *testing.T) {
	p := pool(t, decode.Options{Children: 1})
	restricted, err := p.Sandbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(restricted, "Landlock") {
		t.Skip("skipped: the kernel has no Landlock: " + restricted)
	}
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := os.WriteFile(filepath.Join(dir, "x.nc"), []byte("CDF\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(a, "link.nc")
	if err := os.Symlink(filepath.Join(b, "x.nc"), link); err != nil {
		t.Fatal(err)
	}
	header := func(path, file string) error {
		return p.Do(t.Context(), decode.Call{Kind: netcdf.HeaderKind, File: file, Args: netcdf.HeaderRequest{Path: path}})
	}
	here, elsewhere := filepath.Join(a, "x.nc"), filepath.Join(b, "x.nc")
	for _, c := range []struct {
		name    string
		do      func() error
		allowed bool
	}{
		{"its file", func() error { return header(here, here) }, true},
		{"another folder", func() error { return header(elsewhere, here) }, false},
		{"another folder by a link", func() error { return header(link, here) }, false},
		{"users", func() error { return header("/etc/passwd", here) }, false},
		{"environment of the parent", func() error { return header("/proc/1/environ", here) }, false},
		{"encoding a product", func() error { return p.Do(t.Context(), decode.Call{Kind: encode.KindNetCDF, Args: encode.NetCDF{}}) }, true},
		{"the link's folder", func() error { return header(link, link) }, true},
	} {
		err := c.do()
		if denied := err != nil && strings.Contains(strings.ToLower(err.Error()), "permission"); c.allowed && err != nil || !c.allowed && !denied {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A child gets the variables of its libraries, not the caller's secrets.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "planted")
	t.Setenv("HDF5_PLUGIN_PATH", "/opt/filters")
	file := filepath.Join(t.TempDir(), "environment")
	p := pool(t, decode.Options{Program: script(t, "env > '"+file+"'; exit 1")})
	if _, err := p.Libraries(t.Context()); err == nil {
		t.Fatal("the script is no decoder")
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "planted") || !strings.Contains(string(text), "HDF5_PLUGIN_PATH=/opt/filters") {
		t.Errorf("environment %s, %v", text, err)
	}
}
