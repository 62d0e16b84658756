package experiment

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// The seeds of a training share one fit of their baselines, and have the bits of trainings that fit them.
func TestSeedsShareBaselines(t *testing.T) {
	run := func(e *experimentfile.Config) (outputs []manifest.File, fits int) {
		t.Helper()
		var text bytes.Buffer
		p := progress.New(&text, progress.Plain, time.Nanosecond)
		r, err := Run(context.Background(), Options{Experiment: e, Dir: t.TempDir(), Version: "test", Progress: p, Warn: func(w string) { t.Log(w) }})
		p.Close()
		if err != nil {
			t.Fatal(err)
		}
		last := r.Record.Runs[len(r.Record.Runs)-1]
		if last.Seed != 4 {
			t.Fatalf("the last training has seed %d", last.Seed)
		}
		return last.Outputs, strings.Count(text.String(), "\nfit 0/")
	}
	const seeds = "seeds: [3]"
	own, alone := run(recorded(t, seeds, "seeds: [4]"))
	shared, both := run(recorded(t, seeds, "seeds: [3, 4]"))
	if !reflect.DeepEqual(own, shared) || len(own) == 0 {
		t.Errorf("with seed 3 before it, seed 4 has the outputs %+v, alone %+v", shared, own)
	}
	if alone != 1 || both != 1 {
		t.Errorf("baselines were fitted %d times for two seeds, %d for one", both, alone)
	}
	if _, other := run(recorded(t, seeds, "seeds: [3, 4]", `set: ["train.networks=1"`, `set: ["model.reference=emos", "train.networks=1"`)); other != 2 {
		t.Errorf("with a reference, whose fits are not kept, baselines were fitted %d times, want 2", other)
	}
}
