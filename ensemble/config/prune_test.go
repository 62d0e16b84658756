package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestPruneFaults: what cannot be pruned is refused with the place and a remedy, all of it at
// once, before anything is read.
func TestPruneFaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // "what|fix" of each fault
	}{
		{"defaults", "prune: {method: magnitude, target: 0.9}", nil},
		{"epochs", "prune: {method: magnitude, target: 0.9, from: 6 epochs, to: 36 epochs}\ntrain: {epochs: 60}", nil},
		{"regrowth", "prune: {method: rigl, target: 0.9, drop_fraction: 0.2}", nil},
		{"half of two of four", "prune: {method: magnitude, target: 0.5, structure: 2:4}", nil},
		{"no target", "prune: {method: magnitude}", []string{"prune.target is missing or 0|0.8"}},
		{"all", "prune: {method: magnitude, target: 1}", []string{"prune.target is 1|set a lower target, such as 0.9"}},
		{"more than all", "prune: {method: magnitude, target: 1.5}", []string{"prune.target is 1.5, want 0 to 1|"}},
		{"more than the pattern", "prune: {method: magnitude, target: 0.75, structure: \"2:4\"}", []string{"prune.target is 0.75, want at most 0.5 with structure 2:4|at most 0.5"}},
		{"falls", "prune: {method: magnitude, target: 0.5, initial: 0.6}", []string{"prune.initial is 0.6, want less than prune.target, 0.5|set a lower prune.initial"}},
		{"backwards", "prune: {method: magnitude, target: 0.5, from: 60%, to: 10%}", []string{"prune.from is 60% and prune.to 10%|before"}},
		{"at once", "prune: {method: magnitude, target: 0.5, from: 30 epochs, to: 50%}\ntrain: {epochs: 60}", []string{"prune.from is 30 epochs and prune.to 50%|before"}},
		{"too late", "prune: {method: magnitude, target: 0.5, to: 70 epochs}\ntrain: {epochs: 60}", []string{"prune.to is 70 epochs, after the end of 60 epochs|100%"}},
		{"no unit", "prune: {method: magnitude, target: 0.5, from: 30}", []string{"prune.from: missing unit: write 30% for a percentage of the steps, or 30 epochs|"}},
		{"nothing is pruned", "prune: {target: 0.5}", []string{"prune.target without pruning|set prune.method"}},
		{"of another method", "prune: {method: lottery, target: 0.5, drop_fraction: 0.2, initial: 0.1, every: 7, early_bird: {epochs: 2}}", []string{
			"prune.initial is not used by prune.method: lottery|magnitude or random or movement", "prune.every is not used by prune.method: lottery|", "prune.drop_fraction is not used by prune.method: lottery|set or rigl", "prune.early_bird.epochs is not used by prune.method: lottery|early_bird"}},
		{"blocks of elements", "prune: {method: magnitude, target: 0.5, block: {out: 8}}", []string{"prune.block.out is not used by structure element|set prune.structure: block"}},
		{"global regrowth", "prune: {method: set, target: 0.5, scope: global}", []string{"method set does not support scope global|erk or uniform"}},
		{"regrowth of two of four", "prune: {method: set, target: 0.5, structure: \"2:4\", scope: uniform}", []string{"structure 2:4 does not support method set with scope uniform|another structure"}},
		{"two of four, all trained", "prune: {method: sr_ste, target: 0.5, structure: \"2:4\", masked_decay: 0.1}", nil},
		{"all trained, globally", "prune: {method: sr_ste, target: 0.5, scope: global}", []string{"method sr_ste does not support scope global|erk or uniform"}},
		{"decay of other methods", "prune: {method: topkast, target: 0.5, masked_decay: 0.1}", []string{"prune.masked_decay is not used by prune.method: topkast|sr_ste"}},
		{"soft thresholds", "prune: {method: soft_threshold, target: 0.8, structure: block, initial: 0.2}", nil},
		{"soft thresholds of fixed layers", "prune: {method: soft_threshold, target: 0.5, scope: uniform}", []string{"method soft_threshold does not support structure element with scope uniform|prune.scope: global"}},
		{"stages", "prune: {method: magnitude, target: 0.5}\nmodel: {method: three_stage}", []string{"pruning with method three_stage|joint"}},
		{"channels", "prune: {method: magnitude, target: 0.75, structure: channel, target_unit: operations, channel_multiple: 16}", nil},
		{"channels that regrow", "prune: {method: movement, target: 0.5, structure: channel}", []string{"method movement does not support structure channel|magnitude"}},
		{"channels of many networks", "prune: {method: magnitude, target: 0.5, structure: channel, kernels: sparse, scope: erk}\ntrain: {networks: 3}", []string{
			"scope erk does not support structure channel|uniform or global", "channel pruning with averaged networks|train.networks: 1", "prune.kernels is sparse|remove"}},
		{"channels by gradients", "prune: {method: taylor, target: 0.75, structure: channel, initial: 0.2}", nil},
		{"weights by what channels have", "prune: {method: taylor, target: 0.5}", []string{"method taylor does not support structure element|prune.structure: channel"}},
		{"before there is a gradient", "prune: {method: taylor, target: 0.5, structure: channel, initial: 0.2, from: 0%}", []string{"method taylor would remove channels before the first step|remove prune.initial, or set a later prune.from"}},
		{"operations of elements", "prune: {method: magnitude, target: 0.5, target_unit: operations, channel_multiple: 16}", []string{"prune.target_unit is not used by structure element|channel", "prune.channel_multiple is not used by structure element|channel"}},
		{"unknown", "prune: {method: magnitud, target: 0.5, structure: 1:4}", []string{"prune.method is magnitud, want one of|did you mean `magnitude`?", "prune.structure is \"1:4\", want one of|2:4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", minimal+c.text+"\n")}})
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *exit.Error
			if !errors.As(err, &e) || e.Code != exit.Usage {
				t.Fatalf("got %v, want exit 64", err)
			}
			all := append([]*exit.Error{e}, e.More...)
			if len(all) != len(c.want) {
				t.Fatalf("got %d faults, want %d: %v", len(all), len(c.want), err)
			}
			for i, want := range c.want {
				what, fix, _ := strings.Cut(want, "|")
				if !strings.Contains(all[i].What, what) || !strings.Contains(all[i].Fix, fix) {
					t.Errorf("fault %d is\n%v\nwant %s", i, all[i], want)
				}
			}
		})
	}
}

// TestMoment: what is printed is read back, and means the same part of a training.
func TestMoment(t *testing.T) {
	for text, want := range map[string]float64{"30%": 0.3, "0%": 0, "12.5%": 0.125, "6 epochs": 0.1, "1 epoch": 1. / 60, "100%": 1} {
		m, err := ParseTrainingTime(text)
		if err != nil || m.Fraction(60) != want {
			t.Errorf("%s: %g (%v), want %g", text, m.Fraction(60), err, want)
		}
		if again, err := ParseTrainingTime(m.String()); err != nil || again != m {
			t.Errorf("%s prints as %s, which is %v (%v)", text, m, again, err)
		}
	}
	for _, text := range []string{"", "%", "-3%", "3 steps", "0.1"} {
		if m, err := ParseTrainingTime(text); err == nil {
			t.Errorf("%q is read as %v", text, m)
		}
	}
}
