package directio

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

func TestOpen(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*Align/16)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := DropCache(path); err != nil {
		t.Error(err)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, open := range []func() (filesystem.File, bool, error){func() (filesystem.File, bool, error) { return Open(path) }, func() (filesystem.File, bool, error) { return OpenIn(root, "f") }} {
		f, direct, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		t.Log("direct:", direct)
		room := bigmem.Bytes(bigmem.Make[float32](2 << 20)) // on a huge page
		n, err := io.ReadFull(f, room[:4*Align])
		if err != io.ErrUnexpectedEOF || !bytes.Equal(room[:n], want) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	if _, _, err := Open(path + "x"); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}
