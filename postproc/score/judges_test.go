package score

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// judged is testdata/judges.json: the results of other programs for small cases.
type judged struct {
	Cases struct {
		Members    [][]float32
		Obs        []float32
		Weights    []float64
		Mean       []float32
		Spread     []float32
		Thresholds []float64
		Climate    [][]float64
	}
	Want  map[string]map[string]json.RawMessage
	Equal struct {
		ROCArea []float64 `json:"roc_area"`
		Rel     []float64 `json:"brier_reliability"`
		Res     []float64 `json:"brier_resolution"`
		Ranks   []float64
	}
	Vectors map[string]float64
	EFI     []float64
	SOT     struct {
		Upper, Lower []float64
		Climate      [][]float64 // quantiles 0.01, 0.1, 0.9, 0.99
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

// result scores the cases as one date.
func (j *judged) result(t *testing.T, weights []float64) *Result {
	t.Helper()
	c := j.Cases
	a, err := New(t850, Grid{Weights: weights}, []System{{Name: "raw", Provides: Members}, {Name: "net", Provides: Mean | Spread}}, Options{Scores: IDs(), Thresholds: c.Thresholds})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(day(0), Reference{Obs: c.Obs}, []Sample{{Members: c.Members}, {Mean: c.Mean, Spread: c.Spread}}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// of gives the values of a score, one for each threshold or one.
func of(r *Result, id, system string) (out []Number) {
	for _, v := range r.Scores {
		if v.ID == id && v.System == system {
			out = append(out, v.Value)
		}
	}
	return out
}

// Every score that another program has agrees with it to 1e-6.
func TestJudges(t *testing.T) {
	j := readJudged(t)
	r := j.result(t, j.Cases.Weights)
	n := 0
	for id, systems := range j.Want {
		for system, raw := range systems {
			var want []float64
			if json.Unmarshal(raw, &want) != nil {
				want = make([]float64, 1)
				if err := json.Unmarshal(raw, &want[0]); err != nil {
					t.Fatal(err)
				}
			}
			got := of(r, id, system)
			if len(got) != len(want) {
				t.Errorf("%s of %s: %d values, want %d", id, system, len(got), len(want))
				continue
			}
			for i := range want {
				near(t, fmt.Sprintf("%s of %s, %d", id, system, i), got[i], want[i], 1e-6)
				n++
			}
		}
	}
	if n < 26 {
		t.Errorf("only %d values were judged", n)
	}
	equal := make([]float64, len(j.Cases.Obs))
	for p := range equal {
		equal[p] = 1
	}
	r = j.result(t, equal)
	for id, want := range map[string][]float64{"roc_area": j.Equal.ROCArea, "brier_reliability": j.Equal.Rel, "brier_resolution": j.Equal.Res} {
		for i, got := range of(r, id, "raw") {
			near(t, fmt.Sprint(id, i), got, want[i], 1e-9)
		}
	}
	ties := 0.0 // the other program moved the reference above the equal member
	for k, c := range r.Ranks[0].Counts {
		ties += math.Abs(c - j.Equal.Ranks[k])
	}
	if ties > 1+1e-9 {
		t.Errorf("ranks %v, want %v but for one tie", r.Ranks[0].Counts, j.Equal.Ranks)
	}
}

// Vectors: scores of several dimensions at once, as functions and as scores of fields.
func TestJudgesOfVectors(t *testing.T) {
	j := readJudged(t)
	x, y := wide(j.Cases.Members), widen(j.Cases.Obs)
	near(t, "energy", Number(EnergyScore(x, y, nil, false)), j.Vectors["energy"], 1e-9)
	near(t, "energy, fair", Number(EnergyScore(x, y, nil, true)), j.Vectors["energy_fair"], 1e-9)
	near(t, "variogram", Number(VariogramScore(x, y, nil)), j.Vectors["variogram"], 1e-7)
	near(t, "weighted energy", Number(EnergyScore(x, y, j.Cases.Weights, false)), float64(of(j.result(t, j.Cases.Weights), "energy", "raw")[0]), 1e-12)
	one := [][]float64{{1.2}, {-0.4}, {0.7}, {2.1}, {0.3}}
	near(t, "energy in one dimension", Number(EnergyScore(one, []float64{0.5}, nil, false)), 0.248, 1e-12)
	near(t, "fair energy in one dimension", Number(EnergyScore(one, []float64{0.5}, nil, true)), 0.13, 1e-12)
}

func wide(x [][]float32) (out [][]float64) {
	for _, f := range x {
		out = append(out, widen(f))
	}
	return out
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// The variogram score of a grid sums pairs of neighbours, each once.
func TestVariogramOfNeighbours(t *testing.T) {
	const ny = 3
	for _, nx := range []int{2, 3, 4} {
		x := [][]float32{field(nx*ny, func(p int) float64 { return math.Sin(float64(3 * p)) }), field(nx*ny, func(p int) float64 { return math.Cos(float64(5 * p)) })}
		y := field(nx*ny, func(p int) float64 { return math.Sin(float64(p * p)) })
		for _, periodic := range []bool{false, true} {
			w := make([][]float64, nx*ny)
			pairs := 0.0
			for p := range w {
				w[p] = make([]float64, nx*ny)
				for q := range w {
					row, col := p/nx-q/nx, q%nx-p%nx
					east := row == 0 && (col == 1 || periodic && nx > 2 && col == 1-nx) // of two columns each pair counts once
					if east || row == -1 && col == 0 {
						w[p][q] = 1
						pairs++
					}
				}
			}
			want := VariogramScore(wide(x), widen(y), w) / pairs
			a, err := New(t850, Grid{Weights: field64(nx*ny, func(int) float64 { return 1 }), NX: nx, Periodic: periodic}, []System{{Name: "raw", Provides: Members}}, Options{Scores: []string{"variogram"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Add(day(0), Reference{Obs: y}, []Sample{{Members: x}}); err != nil {
				t.Fatal(err)
			}
			r, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%d columns, periodic %v", nx, periodic), of(r, "variogram", "raw")[0], want, 1e-12)
		}
	}
}

func TestEFI(t *testing.T) {
	j := readJudged(t)
	climate, members := make([]float64, 21), make([]float64, len(j.Cases.Members))
	for p, want := range j.EFI {
		for k := range climate {
			climate[k] = j.Cases.Climate[k][p]
		}
		for m := range members {
			members[m] = float64(j.Cases.Members[m][p])
		}
		near(t, fmt.Sprint("EFI at ", p), Number(EFI(climate, members)), want, 1e-6)
		slices.Sort(members)
		q := j.SOT.Climate
		near(t, fmt.Sprint("SOT above at ", p), clip10(SOT(dist.EmpiricalQuantile(members, 0.9), q[2][p], q[3][p])), j.SOT.Upper[p], 1e-6)
		near(t, fmt.Sprint("SOT below at ", p), clip10(SOT(dist.EmpiricalQuantile(members, 0.1), q[1][p], q[0][p])), j.SOT.Lower[p], 1e-6)
	}
	// Scored, the mean size is that of the judged values.
	var rows [][]float32
	for k := range climate {
		rows = append(rows, field(len(j.EFI), func(p int) float64 { return j.Cases.Climate[k][p] }))
	}
	a, err := New(t850, Grid{Weights: field64(len(j.EFI), func(int) float64 { return 1 })}, []System{{Name: "raw", Provides: Members}}, Options{Scores: []string{"efi"}, Climate: len(climate)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(day(0), Reference{Obs: rows[0], Climate: rows}, []Sample{{Members: j.Cases.Members}}); err != nil {
		t.Fatal(err)
	}
	res, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var size float64
	for _, v := range j.EFI {
		size += math.Abs(v) / float64(len(j.EFI))
	}
	near(t, "size of the index", of(res, "efi", "raw")[0], size, 1e-3) // quantiles in float32 may pass a member
	// The published discretisation, on the climate 0, 1, …, 20.
	for k := range climate {
		climate[k] = float64(k)
	}
	row := func(first, step float64) []float64 {
		out := make([]float64, 10)
		for m := range out {
			out[m] = first + step*float64(m)
		}
		return out
	}
	for _, c := range []struct {
		what string
		x    []float64
		want float64
	}{
		{"12..21", row(12, 1), 0.4578579966}, {"5.5..14.5", row(5.5, 1), -0.0132577113}, {"0..4.5", row(0, 0.5), -0.5887758078},
		{"above", row(50, 1), 0.7913716912}, {"below", row(-50, 1), -0.7913716912},
	} {
		near(t, "ENS-10 EFI of members "+c.what, Number(EFIENS10(climate, c.x)), c.want, 1e-9)
	}
	near(t, "EFI above", Number(EFI(climate, row(50, 1))), 1, 1e-12)
	near(t, "EFI below", Number(EFI(climate, row(-50, 1))), -1, 1e-12)
	out := make([]float32, 3)
	level := make([][]float32, 21)
	for k := range level {
		level[k] = []float32{float32(k), float32(k), float32(k)}
	}
	fields := make([][]float32, 10)
	for m := range fields { // falling: the map sorts
		fields[m] = []float32{float32(21 - m), float32(14.5 - float64(m)), 7}
	}
	fields[6][2] = float32(math.NaN())
	EFIMap(out, level, fields, EFIENS10)
	near(t, "map, 12..21", Number(out[0]), 0.4578579966, 1e-7)
	near(t, "map, 5.5..14.5", Number(out[1]), -0.0132577113, 1e-7)
	if out[2] == out[2] {
		t.Error("a missing member must give NaN")
	}
	climate[4] = math.NaN()
	if !math.IsNaN(EFI(climate, members)) || !math.IsNaN(EFIENS10(climate, members)) || !math.IsNaN(SOT(1, 2, 2)) {
		t.Error("missing quantiles must give NaN")
	}
}

// clip10 keeps a value within ±10, as earthkit does with its shift of tails.
func clip10(v float64) Number { return Number(math.Max(-10, math.Min(10, v))) }
