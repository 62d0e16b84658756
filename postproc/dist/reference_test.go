package dist

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stationData reads a table of station forecasts and what R made of it; the test is
// skipped where they are not.
func stationData(t *testing.T, name string, reference any) (columns map[string][]string) {
	t.Helper()
	root := os.Getenv("ENSEMBLE_TEST_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	path := root + "/stations/" + name
	f, err := os.Open(path + ".csv")
	if err != nil {
		t.Skipf("no test data: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + "_reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, reference); err != nil {
		t.Fatal(err)
	}
	columns = map[string][]string{}
	for i, head := range rows[0] {
		for _, row := range rows[1:] {
			columns[head] = append(columns[head], row[i])
		}
	}
	return columns
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN() // R writes NA
	}
	return v
}

// moments are mean and variance (divisor n−1).
func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}

// Mean CRPS of EMOS forecasts with the coefficients that R fitted (ensembleMOS), of four
// families, at Seattle and Portland.
func TestSeattlePortlandAsR(t *testing.T) {
	type model struct {
		Dates []string
		CRPS  struct{ EMOS float64 } `json:"mean_crps_over_the_verified_pairs"`
		A     []float64
		B     json.RawMessage // [member][date]; another form in models that are not looked at
		C, D  []float64
		Q     []float64
	}
	var ref struct{ Models map[string]model }
	c := stationData(t, "uw_seatac_portland_2007", &ref)
	members := []string{"gfs", "cmcg", "eta", "gasp", "jma", "ngps", "tcwb", "ukmo"}
	for name, crps := range map[string]func(loc, mean, variance float64, m *model, k int, y float64) float64{
		"T2.normal": func(loc, _, v float64, m *model, k int, y float64) float64 {
			return Normal.CRPS(nil, []float64{loc, math.Sqrt(m.C[k] + m.D[k]*v)}, y)
		},
		"MAXWSP10.truncnormal": func(loc, _, v float64, m *model, k int, y float64) float64 {
			return TruncatedNormal.CRPS(nil, []float64{loc, math.Sqrt(m.C[k] + m.D[k]*v)}, y)
		},
		"MAXWSP10.lognormal": func(loc, _, v float64, m *model, k int, y float64) float64 {
			mu, sigma := LogNormalFromMoments(loc, math.Sqrt(m.C[k]+m.D[k]*v))
			return LogNormal.CRPS(nil, []float64{mu, sigma}, y)
		},
		"PCP24.csg0": func(loc, mean, _ float64, m *model, k int, y float64) float64 { // variance from the mean
			v := m.C[k] + m.D[k]*mean
			return CSGamma.CRPS(nil, []float64{loc * loc / v, v / loc, m.Q[k]}, y)
		},
	} {
		m := ref.Models[name]
		var b [][]float64
		if err := json.Unmarshal(m.B, &b); err != nil {
			t.Fatal(err)
		}
		variable, _, _ := strings.Cut(name, ".")
		var sum, n float64
		for i, date := range c["vdate"] {
			k := slices.Index(m.Dates, date)
			y := number(c[variable+".obs"][i])
			if k < 0 || math.IsNaN(y) {
				continue
			}
			x, loc := make([]float64, len(members)), m.A[k]
			for j, member := range members {
				x[j] = number(c[variable+"."+member][i])
				loc += b[j][k] * x[j]
			}
			mean, variance := moments(x)
			if !math.IsNaN(mean) {
				sum += crps(loc, mean, variance, &m, k, y)
				n++
			}
		}
		near(t, fmt.Sprintf("%s, %g cases", name, n), sum/n, m.CRPS.EMOS, 1e-7)
	}
}

// Mean CRPS of censored regressions of rain and of plain ones of temperature with the
// coefficients that R fitted (crch, scoringRules).
func TestInnsbruckAsR(t *testing.T) {
	var raw map[string]json.RawMessage
	value := func(key string) (v []float64) {
		if json.Unmarshal(raw[key], &v) != nil {
			v = make([]float64, 1)
			if err := json.Unmarshal(raw[key], &v[0]); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
		return v
	}
	type forecast struct{ mean, sd, y, year float64 }
	read := func(c map[string][]string, obs, member, date string, f func(float64) float64) (out []forecast) {
		for i := range c[obs] {
			x := make([]float64, 11)
			for j := range x {
				x[j] = f(number(c[fmt.Sprintf("%s.%d", member, j+1)][i]))
			}
			mean, variance := moments(x)
			if variance > 0 {
				out = append(out, forecast{mean, math.Sqrt(variance), f(number(c[obs][i])), number(c[date][i][:4])})
			}
		}
		return out
	}
	mean := func(cases []forecast, family *Family, b []float64, of func(forecast) bool) float64 {
		var sum, n float64
		for _, f := range cases {
			if of(f) {
				sum += family.CRPS(nil, []float64{b[0] + b[1]*f.mean, math.Exp(b[2] + b[3]*math.Log(f.sd))}, f.y)
				n++
			}
		}
		return sum / n
	}
	rain := read(stationData(t, "innsbruck_rain_gefs_day5-8", &raw), "rain", "rainfc", "date", math.Sqrt)
	if n := value("n_used")[0]; n != float64(len(rain)) {
		t.Errorf("%d cases, R used %g", len(rain), n)
	}
	for name, family := range map[string]*Family{"logistic": CensoredLogistic, "gaussian": CensoredNormal} {
		for _, fit := range []string{"ml", "crps"} {
			key := "censored." + name + "." + fit
			near(t, key, mean(rain, family, value(key+".coef"), func(forecast) bool { return true }), value(key + ".mean_crps_insample")[0], 1e-7)
		}
	}
	raw = nil
	cold := read(stationData(t, "innsbruck_tmin_gefs_18-30h", &raw), "temp", "tempfc", "time", func(v float64) float64 { return v })
	for name, family := range map[string]*Family{"logistic": Logistic, "gaussian": Normal} {
		for _, fit := range []string{"ml", "crps"} {
			key := name + "." + fit
			near(t, key, mean(cold, family, value(key+".coef"), func(f forecast) bool { return f.year >= 2011 }), value(key + ".test_mean_crps")[0], 1e-7)
		}
	}
}
