// Package stations compares EMOS at stations with results of R and IMPROVER for the same data
// (../shared/data/stations).
package stations

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// numbers reads whole variables of a file that has no catalogue of fields.
func numbers(t *testing.T, path string, names ...string) [][]float64 {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var h cf.Header
	if err := pool.Do(context.Background(), decode.Call{Kind: netcdf.HeaderKind, File: path, Args: netcdf.HeaderRequest{Path: path}, Result: &h}); err != nil {
		t.Fatal(err)
	}
	req := netcdf.ValuesRequest{Path: path, Double: true}
	for _, name := range names {
		v := slices.IndexFunc(h.Vars, func(v cf.Var) bool { return v.Name == name })
		if v < 0 {
			t.Fatalf("%s has no %s", path, name)
		}
		slab := cf.Slab{Var: v}
		for _, d := range h.Vars[v].Dims {
			slab.Start, slab.Count = append(slab.Start, 0), append(slab.Count, h.Dims[d].Len)
		}
		req.Slabs = append(req.Slabs, slab)
	}
	out := make([][]float64, len(names))
	var places []wire.Values
	err = pool.Do(context.Background(), decode.Call{Kind: netcdf.ValuesKind, File: path, Args: req, Result: &places, ReadOutput: func(payload []byte) error {
		for k, at := range places {
			for i := range at.Count {
				out[k] = append(out[k], math.Float64frombits(binary.LittleEndian.Uint64(payload[at.Offset+8*i:])))
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// set builds cases of members and observations, each with its own init and one point.
func set(members [][]float64, obs []float64) *baseline.Set {
	s := &baseline.Set{Valid: make([]time.Time, len(obs))}
	for i, x := range members {
		var mean, square float64
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			square += (v - mean) * (v - mean) / float64(len(x)-1)
		}
		s.Mean, s.Std, s.Obs = append(s.Mean, float32(mean)), append(s.Std, float32(math.Sqrt(square))), append(s.Obs, float32(obs[i]))
	}
	return s
}

// TestWashingtonAsR: EMOS with one weight for all members on 25 inits at some 700 stations, compared with R's
// ensembleMOS. Tolerances: float32 values 3e-5 K apart change a mean of 700 scores by less than 1e-6 K; R stops up
// to 1e-3 K above the minimum, this program must not.
func TestWashingtonAsR(t *testing.T) {
	dir := testdata.Dir(t, "stations")
	data := numbers(t, filepath.Join(dir, "uw_t2m_48h_2004.nc"), "time", "t2m_forecast", "t2m_observation")
	hours, members, obs := data[0], data[1], data[2]
	var reference struct {
		Dates []struct {
			Date     string
			Training []any   `json:"training_dates"`
			Pairs    int     `json:"n_training_pairs"`
			Raw      float64 `json:"raw_ensemble_mean_crps_of_the_date"`
			Fit      struct {
				A, C, D float64
				B       float64 `json:"b_per_member"`
				Date    float64 `json:"mean_crps_of_the_date"`
				Train   float64 `json:"mean_crps_of_the_training_pairs"`
			} `json:"normal_exchangeable"`
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "uw_t2m_48h_2004_reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &reference); err != nil || len(reference.Dates) != 3 {
		t.Fatal(err, len(reference.Dates))
	}
	const m = 8
	hour := func(date any) float64 {
		d, err := time.Parse("2006010215", date.(string))
		if err != nil {
			t.Fatal(err)
		}
		return d.Sub(time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC)).Hours()
	}
	between := func(from, to float64) (x [][]float64, y []float64) {
		for i, h := range hours {
			if h >= from && h <= to {
				x, y = append(x, members[i*m:(i+1)*m]), append(y, obs[i])
			}
		}
		return x, y
	}
	for _, r := range reference.Dates {
		train := set(between(hour(r.Training[0]), hour(r.Training[1])))
		x, y := between(hour(r.Date), hour(r.Date))
		test := set(x, y)
		if len(train.Obs) != r.Pairs {
			t.Errorf("%s: %d pairs, R has %d", r.Date, len(train.Obs), r.Pairs)
		}
		var raw float64
		for i := range x {
			raw += dist.KernelCRPS(slices.Clone(x[i]), y[i], dist.Plain) / float64(len(y))
		}
		theirs := &baseline.EMOS{Family: baseline.Normal, Alpha: r.Fit.A, Beta: m * r.Fit.B, Gamma: math.Sqrt(r.Fit.C), Delta: math.Sqrt(r.Fit.D)}
		near := func(what string, got, want, tolerance float64) {
			if !(math.Abs(got-want) <= tolerance) {
				t.Errorf("%s: %s is %.9f, R has %.9f", r.Date, what, got, want)
			}
		}
		near("CRPS of the raw ensemble", raw, r.Raw, 1e-6)
		near("training CRPS of R's coefficients", theirs.MeanCRPS(train), r.Fit.Train, 1e-6)
		near("CRPS of R's coefficients", theirs.MeanCRPS(test), r.Fit.Date, 1e-6)
		own, err := baseline.FitRegression(train, baseline.RegressionOptions{Link: baseline.QuadraticScale})
		if err != nil {
			t.Fatal(err)
		}
		ours := &baseline.EMOS{Family: baseline.Normal, Alpha: own.Location[0], Beta: own.Location[1], Gamma: math.Sqrt(own.Scale[0]), Delta: math.Sqrt(own.Scale[1])}
		if a, b := ours.MeanCRPS(train), theirs.MeanCRPS(train); a > b+1e-9 || a < b-1e-3 {
			t.Errorf("%s: training CRPS %.9f, that of R's coefficients %.9f", r.Date, a, b)
		}
		near("CRPS of the own coefficients", ours.MeanCRPS(test), r.Fit.Date, 5e-3)
	}
}

// TestBlendAsIMPROVER: fifteen pairs of the Met Office's site forecasts, with nine percentiles as members, and
// IMPROVER's coefficients. Tolerance: that of the source, 1e-3 + 1e-3 relative; the score to the printed digits.
func TestBlendAsIMPROVER(t *testing.T) {
	dir := testdata.Dir(t, "stations")
	const name = "uk_blend_t2m_percentiles_202108.nc"
	data := numbers(t, filepath.Join(dir, name), "forecast_reference_time", "forecast_period", "percentile", "time", "air_temperature", "air_temperature_observation")
	inits, leads, percentiles, times, forecast, observed := data[0], data[1], data[2], data[3], data[4], data[5]
	const stations, lead = 5, 86400
	var members [][]float64
	var obs []float64
	for i, init := range inits {
		valid := time.Unix(int64(init)+lead, 0).UTC()
		if valid.Hour() != 21 || valid.Before(time.Date(2021, 8, 2, 0, 0, 0, 0, time.UTC)) || valid.After(time.Date(2021, 8, 5, 0, 0, 0, 0, time.UTC)) {
			continue
		}
		l, at := slices.Index(leads, lead), slices.Index(times, init+lead)
		for s := range stations {
			var x []float64
			for k, p := range percentiles {
				if math.Mod(p, 10) == 0 {
					x = append(x, forecast[((i*len(leads)+l)*len(percentiles)+k)*stations+s])
				}
			}
			members, obs = append(members, x), append(obs, observed[at*stations+s])
		}
	}
	if len(obs) != 15 || len(members[0]) != 9 {
		t.Fatalf("%d pairs of %d percentiles, want 15 of 9", len(obs), len(members[0]))
	}
	c := numbers(t, filepath.Join(dir, "uk_blend_t2m_kgo_coefficients.nc"), "emos_coefficient_alpha", "emos_coefficient_beta", "emos_coefficient_gamma", "emos_coefficient_delta")
	known := &baseline.EMOS{Family: baseline.Normal, Alpha: c[0][0], Beta: c[1][0], Gamma: c[2][0], Delta: c[3][0]}
	s := set(members, obs)
	got, err := baseline.FitEMOS(s, baseline.EMOSOptions{NelderMead: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range [][2]float64{{got.Alpha, known.Alpha}, {got.Beta, known.Beta}, {got.Gamma, known.Gamma}, {got.Delta, known.Delta}} {
		if math.Abs(v[0]-v[1]) > 1e-3+1e-3*math.Abs(v[1]) {
			t.Errorf("coefficient %s: %.8g, want %.8g", []string{"alpha", "beta", "gamma", "delta"}[i], v[0], v[1])
		}
	}
	const printed = 0.326551851
	if v := known.MeanCRPS(s); math.Abs(v-printed) > 1e-6 {
		t.Errorf("CRPS of the known coefficients %.9f, want %s", v, strconv.FormatFloat(printed, 'g', -1, 64))
	}
	best, err := baseline.FitEMOS(s, baseline.EMOSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := best.MeanCRPS(s), got.MeanCRPS(s); a > b+1e-9 {
		t.Errorf("BFGS ends at %.9f, the simplex at %.9f", a, b)
	}
}
