// Package rundirtest checks that a run directory is written only while no other process can take it over. Only tests import it.
package rundirtest

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// CheckPublished calls f, which publishes in a directory at least once, and reports each file or folder that was given its
// name, or lost it, while another process could have taken the lease of the directory, or of a folder in it: one that is suspended at that moment overwrites
// what the other one has written. Files in hidden folders are not published yet.
func CheckPublished(t *testing.T, dir string, f func()) {
	t.Helper()
	published := 0
	_, restore := faultfs.Use(faultfs.Fault{Of: []faultfs.Kind{faultfs.Rename, faultfs.Exchange}, At: func(o faultfs.Operation) bool {
		if !isVisible(dir, o.Path) && !isVisible(dir, o.To) {
			return false
		}
		published++
		if !isLocked(t, dir, filepath.Dir(o.To)) {
			t.Errorf("%s %s to %s: another process can take the directory over meanwhile", o.Kind, o.Path, o.To)
		}
		return false
	}})
	defer restore()
	f()
	if published == 0 {
		t.Errorf("nothing was published in %s", dir)
	}
}

// isVisible reports whether a file is in a directory, in no hidden folder of it, and no lease.
func isVisible(dir, path string) bool {
	at, err := filepath.Rel(dir, path)
	folder := filepath.Dir(at)
	return err == nil && !strings.HasPrefix(at, "..") && (folder == "." || !strings.Contains("/"+folder, "/.")) && !rundir.IsLeaseFile(at)
}

// isLocked reports whether no process could lock a folder, or one above it up to dir, to take a lease there.
func isLocked(t *testing.T, dir, folder string) bool {
	for ; strings.HasPrefix(folder, dir); folder = filepath.Dir(folder) {
		d, err := filesystem.Open(folder)
		if err != nil {
			t.Error(err)
			return false
		}
		err = filesystem.Flock(d, unix.LOCK_EX|unix.LOCK_NB)
		d.Close()
		if err != nil {
			return true
		}
	}
	return false
}
