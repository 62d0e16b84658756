package share

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestCluster: clusters worked by hand. In the second case the first centres are 0 and 7.9, and 3.9 belongs to 0. The means
// are then 1.33 and 6.05, and 3.9 is nearer to the second. Points that are all equal are one cluster.
func TestCluster(t *testing.T) {
	line := func(x ...float64) (points [][]float64) {
		for _, v := range x {
			points = append(points, []float64{v})
		}
		return points
	}
	for _, c := range []struct {
		points [][]float64
		count  int
		want   []int
	}{
		{[][]float64{{1, 0, 0}, {0, 0.1, 0.9}, {0.9, 0.1, 0}, {0, 0, 1}}, 2, []int{0, 1, 0, 1}},
		{line(0, 0.1, 3.9, 4.2, 7.9), 2, []int{0, 0, 1, 1, 1}},
		{line(7, 1, 4), 3, []int{0, 1, 2}},
		{line(2, 2, 2), 3, []int{0, 0, 0}},
	} {
		if got := cluster(c.points, c.count); !slices.Equal(got, c.want) {
			t.Errorf("%v in %d clusters: %v, want %v", c.points, c.count, got, c.want)
		}
	}
}

// TestLearnGroups: layers with like coefficients are a group. Softmax of (log 3, 0) is (3/4, 1/4), and the filter is that
// mean of the sections of the store times the scale of its layer.
func TestLearnGroups(t *testing.T) {
	p, err := New(built(t, network(3)), Options{Budget: 1, Groups: OneGroup, Coefficients: Softmax, GroupCount: 2})
	if err != nil {
		t.Fatal(err)
	}
	n := p.Groups[0].Size
	store, given := make([]float32, n), map[string][]float32{}
	for i := range store {
		store[i] = 1
		if i >= n/2 {
			store[i] = 5
		}
	}
	given[p.Groups[0].Name] = store
	for i, l := range p.Layers {
		given[l.Name+coefficientsSuffix] = []float32{float32(math.Log(3)), float32(2 * (i % 2))}
	}
	get := func(name string) ([]float32, bool) { v, ok := given[name]; return v, ok }
	groups, err := p.LearnGroups(get)
	if want := [][]string{{"conv0", "conv2"}, {"conv1", "conv3"}}; err != nil || !reflect.DeepEqual(groups, want) {
		t.Errorf("groups %v, %v; want %v", groups, err, want)
	}
	filters, err := p.Weights(get)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range filters["conv0.weight"] {
		if want := p.Layers[0].scale * (0.75*1 + 0.25*5); math.Abs(float64(v)-want) > 1e-6*want {
			t.Fatalf("weight %v, want %v", v, want)
		}
	}
	delete(given, p.Layers[1].Name+coefficientsSuffix)
	if _, err := p.LearnGroups(get); err == nil {
		t.Error("no error for a layer without coefficients")
	}
}

// TestLearnedGroups: the listed layers share a store, those that are alone or not listed keep their filters.
func TestLearnedGroups(t *testing.T) {
	for _, c := range []struct {
		groups [][]string
		want   string
	}{
		{[][]string{{"conv0", "conv2"}, {"conv1"}}, "[share.group1.store  share.group1.store ]"},
		{[][]string{{"conv3", "conv0"}, {"conv[12]"}}, "[share.group1.store share.group2.store share.group2.store share.group1.store]"},
		{[][]string{{"conv0", "conv1"}, {"conv*"}}, "layer conv0 is in groups 1 and 2"},
		{[][]string{{"conv0", "last"}}, "no layer last that can share its filter"},
		{[][]string{{"conv0"}}, "none of the 4 filters has a second one"},
	} {
		p, err := New(built(t, network(3)), Options{Budget: 1, Groups: Learned, Learned: c.groups})
		var got []string
		if err == nil {
			for _, l := range p.Layers {
				got = append(got, l.Store)
			}
		}
		if err == nil && fmt.Sprint(got) != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, %v; want %s", c.groups, got, err, c.want)
		}
	}
}
