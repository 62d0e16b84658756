package significance

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// judged is testdata/judges.json: the results of other programs for small cases.
type judged struct {
	DM struct {
		Diff []float64
		Rows []struct {
			H         int
			Statistic float64
			PAbove    float64 `json:"p_above"`
		}
	}
	BH struct {
		P       []float64
		Decided []bool
	}
}

func readJudged(t *testing.T) (j judged) {
	t.Helper()
	raw, err := os.ReadFile("testdata/judges.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		t.Fatal(err)
	}
	return j
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func TestDieboldMariano(t *testing.T) {
	j := readJudged(t)
	for _, r := range j.DM.Rows {
		got := DieboldMariano(j.DM.Diff, r.H)
		near(t, fmt.Sprint("statistic, h ", r.H), got.Statistic, r.Statistic, 1e-9)
		want := 2 * math.Min(r.PAbove, 1-r.PAbove)
		near(t, fmt.Sprint("p, h ", r.H), got.P, want, 1e-9)
	}
	if d := DieboldMariano(make([]float64, 9), 1); !math.IsNaN(d.P) {
		t.Errorf("no differences at all: %+v", d)
	}
	if d := DieboldMariano([]float64{1, 2}, 2); !math.IsNaN(d.P) {
		t.Errorf("too few dates: %+v", d)
	}
	// 0.2 apart by turns: lagged covariances make the variance negative, which weights mend.
	d := make([]float64, 20)
	for i := range d {
		d[i] = 1 + 0.1*float64(1-2*(i%2))
	}
	if r := DieboldMariano(d, 2); !(r.P < 1e-6) || math.IsNaN(r.Statistic) {
		t.Errorf("alternating: %+v", r)
	}
	nan := float32(math.NaN())
	p := DieboldMarianoMap([][]float32{{1, 0, nan}, {1.5, nan, nan}, {0.5, 1, nan}, {1, 1, 1}}, 1)
	near(t, "map", p[0], DieboldMariano([]float64{1, 1.5, 0.5, 1}, 1).P, 1e-12)
	near(t, "map with a missing date", p[1], DieboldMariano([]float64{0, 1, 1}, 1).P, 1e-12)
	if !math.IsNaN(p[2]) {
		t.Error("one date must give NaN")
	}
}
