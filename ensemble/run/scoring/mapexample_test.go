package scoring

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The spread of all members is no second map if the network reads all of them.
func TestMapExampleOfAllMembers(t *testing.T) {
	levels := []ensemble.Level{ensemble.SingleLevel}
	m := &model.Model{Task: task.Task{Features: ensemble.Features{Axes: ensemble.Axes{Levels: levels}, DDOF: 1}, Targets: []task.Target{{Variable: "2t"}}, UsedMembers: []ensemble.Member{0, 1}}}
	m.Grid = &ensemble.Grid{NX: 1, NY: 1, Lat: []float64{0}, Lon: []float64{0}}
	for _, c := range []struct {
		members int
		want    bool
	}{{2, false}, {3, true}} {
		all := &Case{Obs: []float32{1}, Used: []int{0, 1}}
		for i := range c.members {
			all.Members = append(all.Members, []float32{float32(i)})
		}
		e := newMapExample(m, &ensemble.Forecast{Members: make([]ensemble.Member, c.members)}, []*Case{all}, 1)
		if got := slices.ContainsFunc(e.Fields, func(f MapField) bool { return f.Kind == ShowFullSpread }); got != c.want {
			t.Errorf("%d members: the spread of all is a map: %v, want %v", c.members, got, c.want)
		}
	}
}

// A map example survives a round trip; one that does not match its grid is refused.
func TestMapExampleRoundTrip(t *testing.T) {
	dir := t.TempDir()
	e := &MapExample{Init: ensemble.Init{}, Grid: &ensemble.Grid{NX: 3, NY: 2, Lat: []float64{1, 0}, Lon: []float64{0, 1, 2}}, Used: 2,
		Fields: []MapField{{Variable: "t", Kind: ShowMean, Values: []float32{1, 2, 3, 4, 5, 6}}}}
	runtest.Must(t, e.Save(dir))
	got, err := LoadExample(dir)
	runtest.Must(t, err)
	if got.Used != 2 || got.Fields[0].Values[5] != 6 {
		t.Errorf("%+v", got)
	}
	path := filepath.Join(dir, ExampleFile)
	text, err := os.ReadFile(path)
	runtest.Must(t, err)
	for old, other := range map[string]string{`\"nx\":3`: `\"nx\":9`, `\"fields\":[`: `\"fiel4s\":[`, `\"grid\":{`: `\"gri4\":{`} {
		bad := strings.Replace(string(text), old, other, 1)
		if bad == string(text) {
			t.Fatalf("no %q in %.300q", old, text)
		}
		runtest.Must(t, os.WriteFile(path, []byte(bad), 0o644))
		if _, err := LoadExample(dir); exit.CodeOf(err) != exit.BadData {
			t.Errorf("with %q: %v", other, err)
		}
	}
}
