package model

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestScalesOfInt8(t *testing.T) {
	whole := map[string]*op.Int8Scales{"a": {Channels: []float32{1}, ZeroPoints: []int{0}, Factors: [][]int16{{1}}}}
	f := Description{Metadata: Metadata{Int8: whole}}
	if err := f.checkInt8("model.json"); err != nil {
		t.Error(err)
	}
	for _, q := range []*op.Int8Scales{nil, {}, {Channels: []float32{1}, ZeroPoints: []int{0}}, {Channels: []float32{1}, ZeroPoints: []int{0}, Factors: [][]int16{{1}}, OutScales: []float32{1}}} {
		err := (&Description{Metadata: Metadata{Int8: map[string]*op.Int8Scales{"a": q}}}).checkInt8("model.json")
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "without calibration") {
			t.Errorf("%v passes for scales: %v", q, err)
		}
	}
	if err := (&Description{Metadata: Metadata{Int8: map[string]*op.Int8Scales{}}}).checkInt8("model.json"); exit.CodeOf(err) != exit.BadData {
		t.Errorf("no scales: %v", err)
	}
	m := Model{Metadata: Metadata{Int8: whole}, Ranks: &team.Team{}}
	if _, err := m.int8Scales(); exit.CodeOf(err) != exit.Usage {
		t.Errorf("on ranks: %v", err)
	}
}
