package predict

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A prediction that begins behind the deadline uses files that have just arrived, but none that still grow.
func TestScanBehindDeadline(t *testing.T) {
	text := "GRIB and 100 bytes of it " + strings.Repeat("x", 71) + "7777"
	for _, grows := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "fc.grib2")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		policy := &inputPolicy{}
		v := &watcher{policy: policy, now: time.Now, files: &fileScanner{policy: policy, now: time.Now}, deadline: time.Now().Add(-time.Second), poll: time.Hour,
			list: func() ([]string, error) { return []string{path}, nil }, missing: func(context.Context, []string, time.Time) error { return nil },
			onWarn: func(text string) { t.Errorf("warning %q", text) }}
		s, err := v.scan(t.Context())
		if s.Done || err != nil {
			t.Fatalf("the first scan of a new file decides: %+v, %v", s, err)
		}
		if grows {
			text += text
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s, err = v.scan(t.Context())
		if !s.Done || (len(s.Files) == 1) == grows || (exit.CodeOf(err) == exit.NotYet) != grows {
			t.Errorf("grows %t: %+v, %v", grows, s, err)
		}
	}
}
