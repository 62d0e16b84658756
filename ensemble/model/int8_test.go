package model

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestScalesOfInt8(t *testing.T) {
	whole := map[string]*op.Int8{"a": {Channels: []float32{1}, Zero: []int{0}, Factors: [][]int16{{1}}}}
	f := Description{About: About{Int8: whole}}
	if err := f.int8Faults(); err != nil {
		t.Error(err)
	}
	for _, q := range []*op.Int8{nil, {}, {Channels: []float32{1}, Zero: []int{0}}, {Channels: []float32{1}, Zero: []int{0}, Factors: [][]int16{{1}}, Out: []float32{1}}} {
		if (&Description{About: About{Int8: map[string]*op.Int8{"a": q}}}).int8Faults() == nil {
			t.Errorf("%v passes for scales", q)
		}
	}
	m := Model{About: About{Int8: whole}, Ranks: &team.Team{}}
	if _, err := m.codes(); exit.CodeOf(err) != exit.Usage {
		t.Errorf("on ranks: %v", err)
	}
}
