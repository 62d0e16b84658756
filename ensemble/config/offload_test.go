package config

import (
	"strings"
	"testing"
)

// A folder for activations that no step would use is refused, with a fix.
func TestOffloadFolder(t *testing.T) {
	const folder, memory = "train.offload_folder=/scratch", "train.memory=1GiB"
	for _, c := range []struct {
		set []string
		fix string // "": accepted
	}{
		{[]string{folder, memory}, ""},
		{[]string{folder, "train.device=auto"}, ""},
		{[]string{folder}, "set train.memory"},
		{[]string{folder, memory, "train.device=cuda"}, "set train.device: cpu"},
		{[]string{folder, memory, "train.pipeline.stages=4"}, "remove train.pipeline"},
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: c.set})
		if c.fix == "" && err != nil || c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix)) {
			t.Errorf("%v: error %v, want fix %q", c.set, err, c.fix)
		}
	}
}
