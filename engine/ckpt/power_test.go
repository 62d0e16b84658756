package ckpt

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/powerfail"
)

// TestFault24: the power fails at any moment while checkpoints are saved, replaced and removed. The one that LATEST names
// is whole, and no step is lost that Save has reported.
func TestFault24(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "checkpoints")
	type promise struct {
		operations int
		step       uint64
	}
	var promises []promise
	l := powerfail.Run(t, dir, func(r *powerfail.Recorder) error {
		for _, step := range []uint64{1, 2, 2, 3, 4} { // 2 is saved again, as after a resume
			if _, err := Save(root, meta(step), sample(), nil); err != nil {
				return err
			}
			promises = append(promises, promise{r.Operations(), step})
			if err := Retain(root, 2); err != nil {
				return err
			}
		}
		promises = append(promises, promise{r.Operations(), 3}) // from here on 3 is the newest
		if _, err := Branch(root, 3); err != nil {
			return err
		}
		_, err := Save(root, meta(4), sample(), nil)
		promises = append(promises, promise{r.Operations(), 4})
		return err
	})
	l.Check(t, l.Some(1, 300), func(dir string, s powerfail.State) error {
		root := filepath.Join(dir, "checkpoints")
		if latest, ok := Latest(root); ok {
			if _, err := Load(filepath.Join(root, Name(latest))); err != nil {
				return fmt.Errorf("LATEST names %d: %w", latest, err)
			}
		}
		least := uint64(0)
		for _, p := range promises {
			if p.operations <= s.Point {
				least = p.step
			}
		}
		if err := RemovePartial(root); err != nil {
			return err
		}
		c, warnings, err := LoadLatest(root)
		switch {
		case err != nil:
			return err
		case least > 0 && (c == nil || c.Step < least):
			return fmt.Errorf("step %d was saved, found %+v with warnings %q", least, c, warnings)
		case len(warnings) > 0:
			return fmt.Errorf("warnings %q", warnings)
		}
		return nil
	})
}
