package runtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// ChannelPruning is a quick training that removes half of the channels between steps 4 and 12 of 16.
func ChannelPruning(t *testing.T, f *demo.Files, set ...string) *config.TrainConfig {
	return demotest.Config(t, f, append([]string{"train.networks=1", "prune.structure=channel", "prune.method=magnitude", "prune.target=0.5", "prune.from=25%", "prune.to=75%",
		"prune.every=2", "prune.channel_multiple=1"}, set...)...)
}

// DefaultLoss is the default loss of a family.
func DefaultLoss(family string) string {
	row, _ := dist.RowByID(family)
	return "train.loss.kind=" + string(row.Rules[0])
}

// PrecipitationKeys are overrides for a quick training of precipitation.
var PrecipitationKeys = []string{"data.leads=[48h]", "data.levels=[single]", "data.variables=[tp]", "data.targets=[{variable: tp, levels: [single]}]",
	"data.members.sampling=fixed", "model.dropout=0", "train.loss.spread=0", "train.epochs=5", "train.learning_rate=0.02"}

// NoFiles are file names for tests that read no files.
var NoFiles = &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}

// TwoLeads are overrides for a quick training of two leads.
func TwoLeads(set ...string) []string {
	return slices.Concat([]string{"data.target_leads=[24h, 48h]", "train.networks=1", "train.epochs=2"}, set)
}

// Trajectories are overrides for members that are corrected along their leads.
func Trajectories(set ...string) []string {
	return TwoLeads(MemberOutput(slices.Concat([]string{"model.kind=trajectory", "train.loss.kind=crps_members", "model.stages=1"}, set)...)...)
}

// MemberOutput are overrides for a quick training of a network that outputs members.
func MemberOutput(set ...string) []string {
	return slices.Concat([]string{"model.head=members", "model.encoder.input=[field]", "train.loss.spread=0", "train.networks=1", "train.epochs=2", "data.members.use=4",
		"data.members.sampling=fixed", "baselines=[mbm]"}, set)
}

// MemberInput are overrides for a quick training of a network that reads members.
func MemberInput(set ...string) []string {
	return slices.Concat([]string{"model.members=encoder", "model.encoder.channels=4", "data.features=[spread]", "train.networks=1", "train.epochs=2"}, set)
}

// StagedTraining is a quick training in stages on the small demonstration data, whose second year has few
// initialisations.
func StagedTraining(t *testing.T, f *demo.Files, set ...string) *config.TrainConfig {
	t.Helper()
	return demotest.Config(t, f, slices.Concat(Staged(), set)...)
}

// Staged returns overrides of a short training by the three-stage method.
func Staged() []string {
	return []string{"model.method=three_stage", "model.bias.base=2", "model.bias.stages=1", "model.bias.local=3", "model.bias.folds=2",
		"data.split.fractions.train=0.8", "data.split.fractions.validation=0.05", "train.loss.spread=0", "train.networks=1", "train.epochs=2", "train.stages.bias.epochs=1"}
}

// NoisySamples returns samples whose analysis is the ensemble mean plus unpredictable noise with a standard
// deviation of 1 K. A bias stage can only overfit on them.
func NoisySamples(t *testing.T, axes ensemble.Axes, inits []ensemble.Init, members []ensemble.Member, grid *ensemble.Grid, lead ensemble.Lead) []*store.Sample {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 7))
	var out []*store.Sample
	for _, init := range inits {
		fc := ensemble.NewForecast(init, axes, members, grid)
		an := ensemble.NewAnalysis(init.Valid(lead), axes.Variables, axes.Levels, grid)
		truth := an.Field(0, 0)
		for p := range truth {
			mean := 280 + r.NormFloat64()
			truth[p] = float32(mean + r.NormFloat64())
			for m := range members {
				fc.Field(0, m, 0, 0)[p] = float32(mean + 0.3*r.NormFloat64())
			}
		}
		out = append(out, &store.Sample{Forecast: fc, Analyses: []*ensemble.Analysis{an}})
	}
	return out
}

// ShortTraining are overrides for a short training: most of its time would go to baselines, which a spread head does
// not need.
var ShortTraining = slices.Clip([]string{"train.epochs=2", "model.head=spread", "train.loss.kind=mse", "model.base=1"})

// Epochs reads the epoch events of a run.
func Epochs(t *testing.T, runDir string) []rundir.Event {
	t.Helper()
	all, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	var out []rundir.Event
	for _, e := range all {
		if e.Kind == "epoch" {
			out = append(out, e)
		}
	}
	return out
}

// InitBytes is the memory of one sample of the small store.
func InitBytes(t *testing.T, dir string) int64 {
	t.Helper()
	s, err := store.Open(context.Background(), dir, store.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Select(store.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	return 4 * r.Values()
}

// CheckpointTensors returns the float32 tensors of a checkpoint by name.
func CheckpointTensors(c *ckpt.Checkpoint) map[string][]float32 {
	out := map[string][]float32{}
	for _, x := range c.Tensors {
		if v, ok := x.Data.([]float32); ok {
			out[x.Name] = v
		}
	}
	return out
}

// FiftySteps is a training of 50 steps of a network whose convolutions are large enough for their work division to
// be timed.
func FiftySteps(t *testing.T, set ...string) *config.TrainConfig {
	f := demotest.Files(t)
	return demotest.Config(t, f, append([]string{FirstInits(f, 14), "model.base=32", "train.networks=1", "train.epochs=5", "train.batch_size=1", "train.threads=2"}, set...)...)
}
