package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
)

// Outputs of commands that tests kill, whose power they cut and whose disk they fill: checksums of what is finished, and
// what must hold at any moment.

// whole compares the files of a finished folder with its SHA256SUMS.
func whole(t *testing.T, dir string) string {
	t.Helper()
	sums, err := checkSums(dir)
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// checkSums does what sha256sum --check --strict does in a folder, and returns SHA256SUMS. TestDataPrepare and TestSuites use
// the program itself, which takes longer to start than such a check.
func checkSums(dir string) (sums string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return "", fmt.Errorf("%s: line %q of SHA256SUMS", dir, line)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if fmt.Sprintf("%x", sha256.Sum256(b)) != sum {
			return "", fmt.Errorf("%s: %s differs from SHA256SUMS", dir, name)
		}
	}
	return string(text), nil
}

// products returns the checksums of the published inits. The folder of an init is complete or absent.
func products(out string, inits int) func(*testing.T) string {
	return func(t *testing.T) (text string) {
		t.Helper()
		dirs, _ := filepath.Glob(filepath.Join(out, "2*"))
		slices.Sort(dirs)
		if len(dirs) > inits {
			t.Fatalf("folders %q", dirs)
		}
		for _, dir := range dirs {
			if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
				t.Fatalf("incomplete product: %v", err)
			}
			text += "finished " + filepath.Base(dir) + "\n" + whole(t, dir)
		}
		return text
	}
}

// store returns the checksums of a finished sample store.
func store(out string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		if _, err := os.Stat(filepath.Join(out, "store.json")); err != nil {
			return ""
		}
		whole(t, out)
		return sumsOf(t, out)
	}
}

// training returns the checksums of the model and scores of a finished run. Its newest checkpoint must be complete.
func training(out string) func(*testing.T) string {
	return func(t *testing.T) (text string) {
		t.Helper()
		root := filepath.Join(out, "checkpoints")
		if latest, ok := ckpt.Latest(root); ok {
			if _, err := ckpt.Load(filepath.Join(root, ckpt.Name(latest))); err != nil {
				t.Fatalf("the checkpoint that LATEST names: %v", err)
			}
		}
		if _, err := os.Stat(filepath.Join(out, "manifest.json")); err != nil {
			return ""
		}
		whole(t, out)
		files, _ := filepath.Glob(filepath.Join(out, "model", "*"))
		for _, path := range append(files, filepath.Join(out, "scores.json")) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("%x %s\n", sha256.Sum256(b), filepath.Base(path))
		}
		return text
	}
}

// scores returns the checksums of the files of a verification, one a line.
func scores(out string) func(*testing.T) string {
	return func(t *testing.T) (text string) {
		t.Helper()
		err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || strings.HasPrefix(d.Name(), ".") || d.Name() == "run.lock") {
				return nil
			}
			b, e := os.ReadFile(path)
			if len(b) == 0 && d.Name() == verify.HistoryFile {
				return e // the same as none
			}
			text += fmt.Sprintf("%x %s\n", sha256.Sum256(b), filepath.Base(path))
			return errors.Join(err, e)
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// promoted returns the checksum of the model that a name points at; "" if there is none. The model must be complete.
func promoted(name string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		dir, want, err := promote.ResolveRunDir(name)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			return ""
		}
		if got, err := trained.ModelChecksum(filepath.Join(dir, "model")); err != nil || got != want {
			t.Fatalf("the model of %s has checksum %s, want %s: %v", name, got, want, err)
		}
		return want
	}
}
