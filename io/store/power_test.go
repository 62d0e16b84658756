package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
)

// TestFault24: the power fails at any moment while a store is written, also over another one. It is whole or absent, there
// once Write has returned, and the next run gives the same bytes. One state in four is completed.
func TestFault24(t *testing.T) {
	dir := t.TempDir()
	for i, storage := range []Storage{Int16, BFloat16} { // the second store replaces the first one
		p, _ := plan(storage, 4)
		o := sizes(p)
		o.Workers, o.Overwrite = 1, i > 0 // the same order of operations in each run
		l := powerfail.Run(t, dir, func(*powerfail.Recorder) error {
			_, err := Write(context.Background(), filepath.Join(dir, "store"), p, o)
			return err
		})
		want := digests(t, filepath.Join(dir, "store"))
		n := 0
		check := func(dir string, s powerfail.State) error {
			dir = filepath.Join(dir, "store")
			st, err := Open(context.Background(), dir, OpenOptions{})
			if err == nil {
				st.Close()
				_, err = os.Stat(filepath.Join(dir, metaName))
			} else if exit.CodeOf(err) == exit.NotYet && s.Point < len(l.Ops) {
				err = nil
			}
			if n++; err != nil || n%4 > 0 {
				return err
			}
			if err := os.RemoveAll(filepath.Join(dir, "run.lock")); err != nil { // its owner, this process, lives
				return err
			}
			if _, err := Write(context.Background(), dir, p, o); err != nil {
				return err
			}
			if got := digests(t, dir); got != want {
				return fmt.Errorf("completed:\n%s\nwant\n%s", got, want)
			}
			return nil
		}
		l.Check(t, l.Some(1, 40), check)
		begin := powerfail.Log{Before: l.Before, Ops: l.Ops[:60]} // while the other store is removed
		begin.Check(t, slices.Values(begin.Sample(1, 100*i)), check)
	}
}
