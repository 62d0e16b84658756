package check

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestInspectStore checks the listing of a store, with checksums if statistics are requested.
func TestInspectStore(t *testing.T) {
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "bf16")
	inspect := func(o InspectOptions) (string, error) {
		o.Files = []string{dir}
		i, err := Inspect(context.Background(), o)
		var b strings.Builder
		err = errors.Join(err, i.Sections().WriteText(&b), answer.New("inspect", "9", err).Write(&b, i.Data))
		return b.String(), err
	}
	for _, c := range []struct {
		o    InspectOptions
		want []string
	}{
		{InspectOptions{}, []string{"bf16", "t (K), gh (m)", "850hPa", "0h", "32"}},
		{InspectOptions{Stats: true}, []string{"all checksums match", "forecast  48h", "analysis  48h"}},
		{InspectOptions{}, []string{`"schema":"ensemble.inspect/1"`, `"band_rows":`}},
	} {
		text, err := inspect(c.o)
		if err != nil {
			t.Error(err)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
	if err := runtest.FlipLastByte(filepath.Join(dir, "shards", "00001.bin")); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(InspectOptions{}); err != nil {
		t.Errorf("a listing without values read them: %v", err)
	}
	if text, err := inspect(InspectOptions{Stats: true}); exit.CodeOf(err) != exit.BadData || strings.Contains(text, "all checksums match") {
		t.Errorf("a changed byte: %v\n%s", err, text)
	}
}
