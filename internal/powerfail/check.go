package powerfail

import (
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Run records what a program of this process does to a folder. The program gets the recorder, whose Operations number the
// moments at which it has promised something.
func Run(t testing.TB, root string, program func(*Recorder) error) *Log {
	t.Helper()
	r, err := Record(root)
	if err != nil {
		t.Fatal(err)
	}
	restore := filesystem.Replace(r)
	err = program(r)
	restore()
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.Log()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Check writes every state to a folder and calls check, which may change the folder. An error fails the test; after three the
// other states are left out.
func (l *Log) Check(t testing.TB, states iter.Seq[State], check func(dir string, s State) error) {
	t.Helper()
	dir, n, failures := filepath.Join(t.TempDir(), "state"), 0, 0
	for s := range states {
		n++
		if err := s.Tree.WriteTo(dir); err != nil {
			t.Fatal(err)
		}
		if err := check(dir, s); err != nil {
			t.Errorf("%s: %v\nfiles: %q\nafter%s", s, err, s.Tree.names(), l.Last(s.Point))
			if failures++; failures == 3 {
				return
			}
		}
	}
	t.Logf("%d states after a power failure in %d operations", n, len(l.Ops))
}

// Last describes the last operations before a moment, for messages.
func (l *Log) Last(point int) string {
	var text strings.Builder
	for _, o := range l.Ops[max(0, point-6):point] {
		text.WriteString("\n  " + o.String())
	}
	return text.String()
}
