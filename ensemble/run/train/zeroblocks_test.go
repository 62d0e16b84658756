package train

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// TestPrunedModel checks that a plan that skips blocks of zeros, in memory or from files, predicts the same
// bits as one that does not; of several networks only common zeros count.
func TestPrunedModel(t *testing.T) {
	tr, samples, err := trainRain(t, rainConfig(t, "train.networks=1", "model.base=16"), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := untrained(t, tr)
	defer m.Close()
	want := map[string]op.BlockMask{}
	for _, w := range m.Networks[0] {
		if len(w.Shape) != 5 || w.Shape[0] <= op.FilterBlock {
			continue
		}
		v, err := w.Float32()
		if err != nil {
			t.Fatal(err)
		}
		k := op.BlockMaskOf(make([]float32, len(v)), w.Shape) // no block
		for i := range v {
			v[i] = float32(i%11-5) / 64
		}
		k = "1" + k[1:]
		k.Clear(v, w.Shape) // which the weights share
		want[w.Name] = k
	}
	if len(want) < 2 {
		t.Fatalf("the network has %d filters of several blocks, want more", len(want))
	}
	same := func(what string, found map[string]op.BlockMask, err error) {
		t.Helper()
		for name := range found { // other filters and maps are also zero in an untrained network
			if want[name] == "" {
				delete(found, name)
			}
		}
		if err != nil || !maps.Equal(found, want) {
			t.Errorf("%s: found %v, %v, want %v", what, found, err, want)
		}
	}
	found, err := m.KeptBlocks()
	same("in memory", found, err)
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := model.Load(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	found, err = loaded.KeptBlocks()
	same("of the files", found, err)
	sparseConvs := func(m *model.Model) (n int) {
		for _, nd := range m.Network.Plan.Graph().Nodes {
			if a, ok := nd.Attrs.(op.FusedConv); ok && nd.Kind == graph.KindOp && strings.Contains(string(a.Mask), "1") {
				n++
			}
		}
		return n
	}
	now, _ := predicted(t, loaded, samples[24:])
	if n := sparseConvs(loaded); n != len(want) {
		t.Errorf("%d convolutions of the plan skip zero blocks, want %d", n, len(want))
	}
	// The second network has no zero blocks.
	second := model.Weights{}
	for _, w := range m.Networks[0] {
		v, err := w.Float32()
		if err != nil {
			t.Fatal(err)
		}
		w.Data = slices.Clone(v)
		if want[w.Name] != "" {
			for i := range v {
				w.Data.([]float32)[i]++
			}
		}
		second = append(second, w)
	}
	two := model.Model{Networks: []model.Weights{m.Networks[0], second}}
	if found, err = two.KeptBlocks(); err != nil || found["enc_conv1.weight"] != "" {
		t.Errorf("of two networks: found %v, %v, want nothing that one of them keeps", found, err)
	}
	dense := *m
	dense.Networks = []model.Weights{second}
	defer dense.Close()
	if err := dense.Open(network.Options(1, "")); err != nil {
		t.Fatal(err)
	}
	dense.Networks = m.Networks
	then, _ := predicted(t, &dense, samples[24:])
	if n := sparseConvs(&dense); n != 0 {
		t.Errorf("%d convolutions of a dense plan skip zero blocks", n)
	}
	for i := range now {
		if !slices.Equal(now[i].Mean, then[i].Mean) {
			t.Errorf("sample %d differs from a dense plan", i)
		}
	}
}
