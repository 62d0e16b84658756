package atomicfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestFault49: who reads a file, or a file of a folder, while it is replaced a thousand times, reads a whole one: never a part,
// a mixture or nothing.
func TestFault49(t *testing.T) {
	dir := t.TempDir()
	content := func(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%04d\n", n), 4000) }
	folder := filepath.Join(dir, "folder")
	replace := map[string]func(n int) error{
		filepath.Join(dir, "file"): func(n int) error { return WriteFile(filepath.Join(dir, "file"), content(n)) },
		filepath.Join(folder, "file"): func(n int) error {
			tmp, err := TempDir(dir, ".folder.partial-")
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(tmp, "file"), content(n), 0o644); err != nil {
				return err
			}
			if err := ReplaceDir(tmp, folder); err != nil {
				return err
			}
			return os.RemoveAll(tmp)
		},
	}
	for path, next := range replace {
		if err := next(0); err != nil {
			t.Fatal(err)
		}
		done, read := make(chan error), 0
		go func() {
			for n := 1; n <= 1000; n++ {
				if err := next(n); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for last, running := 0, true; running; read++ {
			select {
			case err := <-done:
				if running = false; err != nil {
					t.Fatal(err)
				}
			default:
			}
			text, err := os.ReadFile(path)
			var n int
			if err == nil {
				_, err = fmt.Sscanf(string(text[:min(len(text), 4)]), "%d", &n)
			}
			if err != nil || n < last || !bytes.Equal(text, content(n)) {
				t.Fatalf("%s: %d bytes of %d after %d, %v", path, len(text), n, last, err)
			}
			last = n
		}
		t.Logf("%s was read %d times", path, read)
	}
}
