package samples_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
)

// TestSurvey: split and memory are those of the samples that are read, from files and from a store.
func TestSurvey(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f)
	forecasts, analyses, err := samples.ArchiveFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var bytes int64
	for _, part := range []samples.Examples{d.Train, d.Validation, d.Test} {
		s := part.Stream(context.Background(), nil)
		defer s.Close()
		for range part.Inits {
			fc, all, err := s.NextForecast()
			if err != nil {
				t.Fatal(err)
			}
			bytes += 4 * int64(len(fc.Values))
			for _, a := range all {
				bytes += 4 * int64(len(a.Values))
			}
		}
	}
	split, memory, err := samples.Survey(context.Background(), c, d.Grid)
	if err != nil || !reflect.DeepEqual(split, d.Split) || memory != bytes {
		t.Errorf("%+v, %d bytes, %v; want %+v, %d bytes", split, memory, err, d.Split, bytes)
	}
	stored := demotest.Config(t, f, "data.store="+samplestest.PrepareStore(t, c, "f32"))
	split, memory, err = samples.Survey(context.Background(), stored, d.Grid)
	if err != nil || !reflect.DeepEqual(split, d.Split) || memory != 0 {
		t.Errorf("of a store: %+v, %d bytes, %v", split, memory, err)
	}
}
