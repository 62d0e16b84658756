package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Without control, features that depend on which member is the first are refused, with what, where, why and fix. The encoder's
// offset is the difference from the mean of all members, so that it is accepted.
func TestFeaturesWithoutControl(t *testing.T) {
	const none = "data.members.control=none"
	for _, c := range []struct {
		set  []string
		want []string // parts of the error; nil: accepted
	}{
		{[]string{none}, nil},
		{[]string{none, "data.features=[mean]"}, nil},
		{[]string{none, "model.members=encoder", "model.encoder.input=[field, offset]"}, nil},
		{[]string{"data.features=[mean, spread, first]"}, nil},
		{[]string{none, "data.features=[spread, first, offset]"}, []string{"first and offset of data.features depend on which member is the first", "--set data.features=[spread, first, offset]",
			"data.members.control is none: the members are equal draws", "set data.features: [mean, spread], or data.members.control: include"}},
		{[]string{none, "data.features=[spread, offset]"}, []string{"offset of data.features depends on which member"}},
		{[]string{none, "model.kind=inception", "model.head=spread", "train.loss.kind=mse", "data.levels=[850hPa]", "data.targets=[{variable: t, levels: [850hPa]}]"},
			[]string{"inception needs feature first, which depends on which member is the first", "set another model.kind, or data.members.control: include"}},
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: c.set})
		if c.want == nil && err != nil || c.want != nil && exit.CodeOf(err) != exit.Usage {
			t.Errorf("%v: error %v, want parts %q", c.set, err, c.want)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: error %v, want part %q", c.set, err, part)
			}
		}
		if err != nil && strings.Contains(err.Error(), "set data.features: [spread, first]") {
			t.Errorf("%v: the fix %v is refused too", c.set, err)
		}
	}
}

// Without control the default of data.features is [mean, spread]; the effective configuration loads again and is the same.
func TestDefaultFeaturesWithoutControl(t *testing.T) {
	load := func(files []string, set ...string) *TrainConfig {
		t.Helper()
		c, err := LoadTrain(Sources{Files: files, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	file := []string{write(t, "x.yaml", good)}
	if c := load(file); !slices.Equal(c.Data.Features, []string{"spread", "first", "offset"}) {
		t.Errorf("with control %v", c.Data.Features)
	}
	c := load(file, "data.members.control=none")
	if !slices.Equal(c.Data.Features, []string{"mean", "spread"}) {
		t.Errorf("without control %v", c.Data.Features)
	}
	again := load([]string{write(t, "effective.yaml", string(c.YAML()))})
	if !slices.Equal(again.Data.Features, c.Data.Features) || again.Hash() != c.Hash() || !strings.Contains(string(c.YAML()), "features: [mean, spread]") {
		t.Errorf("loaded again %v:\n%s", again.Data.Features, c.YAML())
	}
}
