package baseline

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// wind makes dates × points of members and observations above 0: places with a bias and
// a spread of their own, too narrow by half.
func wind(dates, points, members int, seed uint64) *Set {
	r := rand.New(rand.NewPCG(seed, 11))
	s := &Set{Valid: weekly(dates)}
	n := dates * points
	s.Mean, s.Std, s.Obs, s.Members = make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n*members)
	for i, v := range s.Valid {
		for p := range points {
			state := 12 + 2*math.Sin(ensemble.SeasonAngle(v)) + 1.5*r.NormFloat64()
			sd := 0.5 + 0.5*r.Float64()
			var x [][]float32
			for m := range members {
				at := (i*members+m)*points + p
				s.Members[at] = float32(state + sd*r.NormFloat64())
				x = append(x, s.Members[at:at+1])
			}
			ensemble.MeanStd(s.Mean[i*points+p:][:1], s.Std[i*points+p:][:1], x, 1)
			s.Obs[i*points+p] = float32(max(0, state-1+float64(p%3)+2*sd*r.NormFloat64()))
		}
	}
	return s
}

// rain is max(wind − 12, 0), which is positive on half of the days.
func (s *Set) rain() *Set {
	out := &Set{Valid: s.Valid, Mean: make([]float32, len(s.Obs)), Std: make([]float32, len(s.Obs))}
	for _, v := range s.Obs {
		out.Obs = append(out.Obs, max(0, v-12))
	}
	for _, v := range s.Members {
		out.Members = append(out.Members, max(0, v-12))
	}
	n := s.Points()
	for i := range s.Valid {
		ensemble.MeanStd(out.Mean[i*n:(i+1)*n], out.Std[i*n:(i+1)*n], out.raw(i).Members, 1)
	}
	return out
}

// rawCRPS is the mean CRPS of the members as they are.
func (s *Set) rawCRPS() (crps float64) {
	n := s.Points()
	for i := range s.Valid {
		for p := range n {
			var x []float64
			for _, f := range s.raw(i).Members {
				x = append(x, float64(f[p]))
			}
			crps += dist.KernelCRPS(x, float64(s.Obs[i*n+p]), dist.Plain) / float64(len(s.Obs))
		}
	}
	return crps
}

// raw is the ensemble of one date of a set.
func (s *Set) raw(i int) Raw {
	n := s.Points()
	m := len(s.Members) / len(s.Obs)
	r := Raw{Valid: s.Valid[i], Mean: s.Mean[i*n : (i+1)*n], Std: s.Std[i*n : (i+1)*n]}
	for k := range m {
		r.Members = append(r.Members, s.Members[(i*m+k)*n:][:n])
	}
	return r
}

// crps is the mean CRPS of a method's forecasts on a set.
func (m *Method) crps(f Fit, s *Set) float64 {
	n := s.Points()
	var sum float64
	for i := range s.Valid {
		out := f.Forecast(s.raw(i))
		par := make([]float64, len(out))
		for p := range n {
			for k := range out {
				par[k] = float64(out[k][p])
			}
			y := float64(s.Obs[i*n+p])
			if m.Family == nil {
				sum += dist.KernelCRPS(par, y, dist.Plain)
			} else {
				sum += m.Family.CRPS(nil, par, y)
			}
		}
	}
	return sum / float64(n*len(s.Valid))
}

// Every method is better than the raw ensemble on dates that it was not fitted to (climatology
// is compared with a constant), has a complete description, and is equal after writing and
// reading.
func TestMethods(t *testing.T) {
	const points, members = 7, 5
	windTrain, windTest := wind(150, points, members, 1), wind(60, points, members, 2)
	seen := map[string]bool{}
	for _, m := range Methods {
		if seen[m.ID] || m.Name == "" || m.Formula == "" || m.Doc == "" || m.Source == "" || m.Cost <= 0 || MethodByID(m.ID) != m {
			t.Errorf("%s: two of this name, or a description or the cost is missing", m.ID)
		}
		seen[m.ID] = true
		train, test := windTrain, windTest
		if m.Family == dist.CSGamma {
			train, test = train.rain(), test.rain()
		}
		f, err := m.Fit(train)
		if err != nil {
			t.Fatal(m.ID, err)
		}
		raw := test.rawCRPS()
		limit := 0.95 * raw
		switch m.ID {
		case "climatology":
			limit = 1.5 * raw
		case "quantile_map":
			limit = raw // which makes the spread no wider than that of the climate
		}
		if got := m.crps(f, test); !(got < limit) {
			t.Errorf("%s: mean CRPS %.4f, raw %.4f", m.ID, got, raw)
		}
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		again := m.Empty()
		if err := json.Unmarshal(text, again); err != nil {
			t.Fatal(err)
		}
		arrays := f.Arrays()
		for i, a := range again.Arrays() {
			from := reflect.ValueOf(arrays[i].Data).Elem()
			if want := map[bool]int{false: a.Terms * points, true: a.Terms}[a.Pooled]; from.Len() != want {
				t.Errorf("%s: %s has %d numbers, want %d", m.ID, m.ArrayName(a), from.Len(), want)
			}
			if name := m.ArrayName(a); seen[name] {
				t.Errorf("two arrays named %s", name)
			} else {
				seen[name] = true
			}
			reflect.ValueOf(a.Data).Elem().Set(from)
		}
		if got, want := again.Forecast(test.raw(3)), f.Forecast(test.raw(3)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: after saving %v, before %v", m.ID, got, want)
		}
	}
	if MethodByID("analogues") != nil {
		t.Error("an unknown method was found")
	}
}

// A regression of dates in one season has no seasonal cycle, which would be undetermined in the
// other seasons.
func TestSeasonal(t *testing.T) {
	s := wind(52, 2, 3, 3)
	part := s.subset(func(i int) bool { return s.Valid[i].Month() <= time.March })
	for want, of := range map[int]*Set{1: s, 0: part} {
		r, err := FitRegression(of, RegressionOptions{Harmonics: Seasonal})
		if err != nil || r.Harmonics != want {
			t.Errorf("%d dates: %v harmonics, want %d (%v)", len(of.Valid), r, want, err)
		}
	}
}

func TestMethodsRefuse(t *testing.T) {
	s := wind(8, 2, 3, 4)
	for i := range s.Obs {
		s.Obs[i] = float32(math.NaN())
	}
	bare := wind(60, 2, 3, 4).rain()
	bare.Members = nil
	for _, m := range Methods {
		if f, err := m.Fit(s); err == nil {
			t.Errorf("%s was fitted to nothing: %v", m.ID, f)
		}
		if _, err := m.Fit(bare); (err == nil) == (m.Predictors == MemberPredictors) {
			t.Errorf("%s without members: %v", m.ID, err)
		}
	}
}

var update = flag.Bool("update", false, "write docs/verification.md again")

// docs/verification.md lists the methods as they are.
func TestDocs(t *testing.T) {
	const path = "../../docs/verification.md"
	const heading = "\n## Table of baselines\n"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(raw), heading)
	if !ok {
		t.Fatal("docs/verification.md has no table of baselines")
	}
	var b strings.Builder
	b.WriteString("\n| `id` | baseline | formula | reads | gives | source |\n|---|---|---|---|---|---|\n")
	first := map[string]string{} // the method that shows a formula, by the formula without its family
	for _, m := range Methods {
		gives, general := "members", m.Formula
		if m.Family != nil {
			gives, general = "a distribution, "+m.Family.Name, strings.Replace(m.Formula, m.Family.Name+",", "", 1)
		}
		formula := "as `" + first[general] + "`"
		if first[general] == "" {
			first[general], formula = m.ID, "`"+strings.ReplaceAll(m.Formula, "|", `\|`)+"`"
		}
		reads := [...]string{"the date", "mean and spread", "mean and spread of the full ensemble", "members"}[m.Predictors]
		fmt.Fprintf(&b, "| `%s` | %s. %s | %s | %s | %s | %s |\n", m.ID, strings.ToUpper(m.Name[:1])+m.Name[1:], m.Doc, formula, reads, gives, m.Source)
	}
	want := head + heading + b.String()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(raw) != want {
		t.Error("docs/verification.md differs from the table: go test ./postproc/baseline -run TestDocs -update")
	}
}

// The numbers of Method.Cost: processor time, with GOMAXPROCS=1, for wind speeds of 10 members at 16384 points on 200 dates. The
// two methods of more than five microseconds a case are fitted at 64 points, emos_csg to rain.
func BenchmarkMethods(b *testing.B) {
	many, few := wind(200, 16384, 10, 1), wind(200, 64, 10, 1)
	measure := func(name string, s *Set, fit func() error) {
		b.Run(name, func(b *testing.B) {
			var before, after syscall.Rusage
			err := syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				err = errors.Join(err, fit())
			}
			if err = errors.Join(err, syscall.Getrusage(syscall.RUSAGE_SELF, &after)); err != nil {
				b.Fatal(err)
			}
			spent := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(spent)/float64(b.N*len(s.Obs)), "cpu-ns/case")
		})
	}
	for _, m := range Methods {
		s := many
		switch {
		case m.Family == dist.CSGamma:
			s = few.rain()
		case m.Cost > 5000:
			s = few
		}
		measure(m.ID, s, func() error {
			_, err := m.Fit(s)
			return err
		})
	}
	measure("affine spread", many, func() error {
		_, err := FitAffineSpread(many)
		return err
	})
	measure("split of the CRPS reduction", many, func() error { // most of the work of skill.Fit
		_, err := FitRegression(many, RegressionOptions{Link: QuadraticScale})
		_, other := FitRegression(many, RegressionOptions{Link: QuadraticScale, ScaleOnly: true})
		return errors.Join(err, other)
	})
}
