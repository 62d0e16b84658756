package experiment

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mllog/mllogtest"
)

// Trainings to a quality alone stop there, keep their logs and nothing else; what was timed is not timed again, what was
// stopped is; the record is replayed by steps and losses, never by seconds.
func TestTimesAlone(t *testing.T) {
	e := recorded(t, "scores:\n", "quality: {target: 100, seeds: [5, 4]}\nscores:\n", `"train.epochs=1"`, `"train.epochs=2"`)
	asked := 0
	o := Options{Experiment: e, Dir: t.TempDir(), Version: "test", ToQuality: true, Stop: func() error {
		if asked++; asked > 6 { // in the second training
			return &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
		}
		return nil
	}}
	first, second := o.qualityLogPath("base", 5), o.qualityLogPath("base", 4)
	if _, err := Run(context.Background(), o); exit.CodeOf(err) != exit.SaveAndStop {
		t.Fatalf("got %v after %d steps, want a stop", err, asked)
	}
	was := read(t, first)
	if _, err := os.Stat(second); err == nil {
		t.Error("a training that was stopped left a log")
	}
	o.Stop = nil
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, first) != was {
		t.Error("what was timed is timed again")
	}
	left, err := filepath.Glob(filepath.Join(o.Dir, "quality", "*.txt"))
	if err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v", left, err)
	}
	mllogtest.Check(t, second)
	q := r.Record.Quality[0]
	if filepath.Base(r.Path) != record.QualityFile || !r.Passed() || len(r.Record.Runs) != 0 || r.Record.Machine.Threads != 1 || len(q.Seeds) != 2 || q.Seeds[1] != 4 ||
		q.Epochs[0] != 1 || q.Steps[0] != 4 || !(q.Seconds[1] > 0) || !(q.Processor[0] > 0) || !(q.Staging[0] > 0 && q.Staging[0] < q.Seconds[0]) || q.Result == q.Result || q.Loss[0] == q.Loss[1] {
		t.Errorf("record %+v", r.Record)
	}

	c, err := Collect(context.Background(), []string{o.Dir})
	if err != nil || len(c.Runs) != 0 || len(c.Times) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	var b bytes.Buffer
	if err := c.Sections().WriteText(&b); err != nil || !strings.Contains(b.String(), "tiny") || !strings.Contains(b.String(), "1, 1") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if err := c.Save(filepath.Join(o.Dir, "page")); err != nil {
		t.Error(err)
	}

	// Replayed, losses matter and seconds do not. A log of other threads is no log of this: the first is timed again.
	if err := os.WriteFile(first, []byte(strings.Replace(was, `"number_of_threads","value":1`, `"number_of_threads","value":2`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	changed := *r.Record
	changed.Start = changed.Start.Add(-time.Hour) // of another run: one is not compared with itself
	changed.Quality[0].Seconds[0] *= 7
	path := filepath.Join(t.TempDir(), record.QualityFile)
	for _, wrong := range []bool{false, true} {
		if wrong {
			changed.Quality[0].Loss[1] *= 1.01
		}
		if err := changed.Write(path); err != nil {
			t.Fatal(err)
		}
		p, err := Reproduce(context.Background(), path, Options{Dir: o.Dir, Data: filepath.Dir(demotest.Files(t).GRIB2[0]), Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if now, err := quality.Read(first); err != nil || now.Threads != 1 || read(t, first) == was {
			t.Errorf("%+v, %v", now, err)
		}
		if p.Passed() == wrong || !p.Comparison.Promised || len(p.Comparison.Times) != 2 || !p.Comparison.Times[0].Same || p.Comparison.Times[1].Same == wrong {
			t.Errorf("%+v", p.Comparison)
		}
		b.Reset()
		if err := p.Sections().WriteText(&b); err != nil || !strings.Contains(b.String(), "base, seed 4") || strings.Contains(b.String(), "other bits") != wrong {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}

// An experiment without a quality has no time to one.
func TestTimesAloneOfNothing(t *testing.T) {
	for _, o := range []Options{{ToQuality: true}, {MLLog: true}} {
		o.Experiment, o.Dir, o.Version = recorded(t), t.TempDir(), "test"
		if _, err := Run(context.Background(), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "no target quality") {
			t.Errorf("%v", err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
