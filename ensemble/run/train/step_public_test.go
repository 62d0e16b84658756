package train_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// With averaged weights, the average is stored in the model and kept as best. A run that is stopped anywhere,
// also within an accumulated step, ends with the bits of an uninterrupted one.
func TestAverageAndAccumulateResume(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, "train.optimizer=lamb", "train.ema=0.7", "train.batch_size=2", "train.accumulate=3", "train.learning_rate_scaling=sqrt", "train.warmup=2", "train.epochs=3")
	whole := traintest.CheckResume(t, c, 4, 3, 8, 17) // batches; 7 make an epoch
	m, err := model.Load(filepath.Join(whole, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	at := runtest.CheckpointTensors(runtest.NewestCheckpoint(t, whole))
	for _, x := range m.Networks[1] {
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v, at[train.PartBest+x.Name]) {
			t.Errorf("%s of the model is not that of the best checkpoint", x.Name)
		}
		if strings.HasSuffix(x.Name, ".weight") && slices.Equal(v, at[train.PartWeights+x.Name]) {
			t.Errorf("%s of the model is the last weight, not an average", x.Name)
		}
	}
	for name, v := range at {
		if p, ok := strings.CutPrefix(name, train.PartAverage); ok && slices.Equal(v, at[train.PartWeights+p]) && strings.HasSuffix(p, ".weight") {
			t.Errorf("%s is no average", name)
		}
	}
	if len(at[train.PartAverage+m.Networks[1][0].Name]) == 0 {
		t.Error("the checkpoint has no average")
	}
}
