package compress

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
)

func pruneJob(t *testing.T, text string, args ...any) *config.PruneConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prune.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, text, args...), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadPrune(config.Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPruneARun prunes a trained network in two rounds, and its result again. Each table has fewer operations, and
// the skill computed by verification. The runs equal those of trainings. Each file is published while no other process can take the run over.
func TestPruneARun(t *testing.T) {
	f := demotest.Files(t)
	dirs := t.TempDir()
	dense, small, smaller := filepath.Join(dirs, "dense"), filepath.Join(dirs, "small"), filepath.Join(dirs, "smaller")
	c := demotest.Config(t, f, "train.networks=1", "train.epochs=2", "baselines=[climatology]")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dense, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	const text = "version: 1\nrun_dir: %s\nrounds: %d\nepochs: 1\nprune: {structure: channel, target: %g, target_unit: operations, channel_multiple: 1}\n"
	var r *RetrainResult
	var err error
	rundirtest.CheckPublished(t, small, func() {
		r, err = Prune(context.Background(), pruneJob(t, text, dense, 2, 0.5), RetrainOptions{RunDir: small, Version: "test"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Steps != 8 {
		t.Errorf("%d steps, want two rounds of an epoch of 4", r.Steps)
	}
	check := func(table *EfficiencyTable, target float64) {
		t.Helper()
		a, b := table.Rows[0], table.Rows[1]
		if left := float64(b.Operations) / float64(a.Operations); left > target || left < target-0.2 || b.Parameters >= a.Parameters || b.Nonzeros > b.Parameters || b.Bytes >= a.Bytes {
			t.Errorf("%+v\nand after pruning to %v of the operations\n%+v", a, target, b)
		}
		// The network reads three of the four members; skill is that of all four.
		if len(b.SkillScores) < 2 || b.SkillScores[0].Reference == b.SkillScores[1].Reference || b.Skill != b.SkillScores[1].SkillScore || b.SkillScores[0].SkillScore == b.SkillScores[1].SkillScore {
			t.Errorf("skill scores %+v, skill %v", b.SkillScores, b.Skill)
		}
		if len(b.CRPS) != 1 || !(b.Skill > -9 && b.Skill < 1) || float64(b.Efficiency) != float64(b.Skill)/(float64(b.Nonzeros)/1e6) || b.Milliseconds <= 0 {
			t.Errorf("row %+v", b)
		}
	}
	check(r.Table, 0.5)
	var text2 strings.Builder
	if err := r.Table.Sections().WriteText(&text2); err != nil || !strings.Contains(text2.String(), "CRPS of t 850hPa +48h: ") {
		t.Errorf("table %s, %v", &text2, err)
	}
	// Prune the network with half of the operations to a quarter, in one step.
	r, err = Prune(context.Background(), pruneJob(t, text+"compare_with: [%s]\n", small, 1, 0.75, dense), RetrainOptions{RunDir: smaller, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	check(&EfficiencyTable{Rows: []EfficiencyRow{r.Table.Rows[2], r.Table.Rows[1]}}, 0.25)
	// A comparison of finished runs gives the same table.
	table, err := CompareEfficiency(context.Background(), []string{dense, smaller}, 1, setup.Timings{})
	if err != nil {
		t.Fatal(err)
	}
	check(table, 0.25)
	if _, err := CompareEfficiency(context.Background(), []string{dense, dirs}, 1, setup.Timings{}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("a folder without a training: %v", err)
	}
}

func TestRunsThatCannotBePruned(t *testing.T) {
	f := demotest.Files(t)
	many := filepath.Join(t.TempDir(), "many")
	if _, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, "train.epochs=1", "baselines=[climatology]"), RunDir: many, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]struct {
		code exit.Code
		what string
	}{
		many:        {exit.Usage, "a run with 2 networks, method \"joint\", cannot be pruned"},
		t.TempDir(): {exit.NotYet, "the run is not finished"},
	} {
		c := pruneJob(t, "version: 1\nrun_dir: %s\nprune: {structure: channel, target: 0.5}\n", from)
		_, err := Prune(context.Background(), c, RetrainOptions{RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"})
		if exit.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.what) {
			t.Errorf("%v, want %d with %q", err, want.code, want.what)
		}
	}
}
