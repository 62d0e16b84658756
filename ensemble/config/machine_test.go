package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

const goodMachine = "version: 1\nnode: {ranks: 4}\nrank: {gflops: 1200, gb_s: 100, memory: 64GiB}\n" +
	"network: {topology: \"fattree:16\", latency_us: 2, gb_s: 12.5}\nintra_node: {gb_s: 50}\nimbalance: {ranks: 4, slowest: 1.5, persistent: 1.25, times: [0.5, 1.5]}\n"

func loadMachine(t *testing.T, text string) (*MachineConfig, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return LoadMachine(path)
}

// A description is read as it stands, with defaults; variables of the environment neither
// change it nor are complained about.
func TestLoadMachine(t *testing.T) {
	t.Setenv("ENSEMBLE_RANK_GFLOPS", "7")
	c, err := loadMachine(t, goodMachine)
	if err != nil {
		t.Fatal(err)
	}
	want := Machine{Version: 1, Node: Node{4}, Rank: Rank{1200, 100, 64 << 30}, Network: Link{"fattree:16", 2, 12.5}, IntraNode: IntraNode{1, 50}, Imbalance: Imbalance{4, 1.5, 1.25, []float64{0.5, 1.5}}}
	if !reflect.DeepEqual(c.Machine, want) || len(c.Warnings()) > 0 {
		t.Errorf("%+v, warnings %q; want %+v", c.Machine, c.Warnings(), want)
	}
}

// Each mistake is one clear error with its line.
func TestWrongMachines(t *testing.T) {
	for _, c := range []struct{ old, text, want string }{
		{"ranks: 4", "ranks: 0", "1 to 4096"},
		{"gflops: 1200", "gflop: 1200", "did you mean"},
		{"gflops: 1200, ", "", "rank.gflops"},
		{"gflops: 1200", "gflops: fast", "number"},
		{"gb_s: 12.5", "gb_s: 0", "0.001 to 1e+06"},
		{"64GiB", "64", "64"},
		{"latency_us: 2", "latency_us: -2", "0 to 1e+06"},
		{"version: 1", "version: 2", "one of 1"},
		{"node: {ranks: 4}", "node: 4", "want further keys"},
		{"imbalance: {ranks: 4", "imbalance: {ranks: 1", "2 or more"},
		{"slowest: 1.5", "slowest: 4.5", "at most 4 times"},
		{"persistent: 1.25", "persistent: 1.75", "1.5 or less"},
		{"times: [0.5, 1.5]", "times: [-1, 1]", "0 or more"},
	} {
		_, err := loadMachine(t, strings.Replace(goodMachine, c.old, c.text, 1))
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if !strings.Contains(e.Error()+e.Why+e.Fix+e.What, c.want) || e.At == "" {
			t.Errorf("%s: %+v; want %q", c.text, e, c.want)
		}
		if c.old != "gflops: 1200" && len(e.More) > 0 {
			t.Errorf("%s: more faults than one: %v", c.text, e.More)
		}
	}
	if _, err := LoadMachine("no such file"); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.(*exit.Error).Fix, "--machine") {
		t.Errorf("without the file: %v", err)
	}
}

// The machine of a training lies beside its configuration, is read with it, and belongs to
// what the run is.
func TestTrainMachine(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "machine.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "train.yaml")
	if err := os.WriteFile(file, []byte(minimal+"train: {machine: machine.yaml}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func() (*TrainConfig, error) { return LoadTrain(Sources{Files: []string{file}}) }
	if _, err := read(); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.(*exit.Error).Fix, "train.machine") {
		t.Errorf("without the file: %v", err)
	}
	write(goodMachine)
	c, err := read()
	if err != nil || c.Machine == nil || c.Machine.Node.Ranks != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
	write(strings.Replace(goodMachine, "gflops: 1200", "gflops: 900", 1))
	if other, err := read(); err != nil || other.Identity() == c.Identity() {
		t.Errorf("another machine has the same identity: %v", err)
	}
	write(strings.Replace(goodMachine, "gflops: 1200", "gflops: 0", 1))
	if _, err := read(); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.(*exit.Error).At, "machine.yaml:3") {
		t.Errorf("a machine without speed: %+v", err)
	}
}
