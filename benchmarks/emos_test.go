package benchmarks

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// pointSet makes training data with a bias and a spread of its own at every point.
func pointSet(points, dates int) *baseline.Set {
	r := rand.New(rand.NewPCG(11, 12))
	s := &baseline.Set{}
	bias, width := make([]float64, points), make([]float64, points)
	for p := range bias {
		bias[p], width[p] = r.NormFloat64(), 0.5+r.Float64()
	}
	for i := range dates {
		s.Valid = append(s.Valid, time.Date(2015, 1, 1+3*i, 0, 0, 0, 0, time.UTC))
		for p := range points {
			m, sd := 280+5*r.NormFloat64(), 0.5+1.5*r.Float64()
			s.Mean, s.Std = append(s.Mean, float32(m)), append(s.Std, float32(sd))
			s.Obs = append(s.Obs, float32(m+bias[p]+(0.3+width[p]*sd)*r.NormFloat64()))
		}
	}
	return s
}

// pointCRPS is the mean CRPS at each of the first points with coefficients a, b, c and d.
//
// Shape: theta [point][a b c d].
func pointCRPS(s *baseline.Set, theta []float64) []float64 {
	n := s.Points()
	out := make([]float64, len(theta)/4)
	for p := range out {
		t := theta[4*p:]
		for i := range s.Valid {
			c, _, _ := dist.NormalCRPS(t[0]+t[1]*float64(s.Mean[i*n+p]), t[2]+t[3]*float64(s.Std[i*n+p]), float64(s.Obs[i*n+p]))
			out[p] += c / float64(len(s.Valid))
		}
	}
	return out
}

// fitPoints fits all points here, and returns microseconds per point.
func fitPoints(t *testing.T, s *baseline.Set, processors int) (theta []float64, each float64) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	begin := time.Now()
	r, err := baseline.FitRegression(s, baseline.RegressionOptions{})
	each = time.Since(begin).Seconds() * 1e6 / float64(s.Points())
	if err != nil {
		t.Fatal(err)
	}
	for p := range s.Points() {
		theta = append(theta, r.Location[2*p], r.Location[2*p+1], r.Scale[2*p], r.Scale[2*p+1])
	}
	return theta, each
}

// emosBesidePeers fits the same normal EMOS at the same points here, with SciPy and with R, in turn. It compares mean CRPS
// and time per point; peers fit the first points only.
func emosBesidePeers(t *testing.T, points, dates, first, rounds int) {
	python, err := testdata.FindPython("scipy")
	if err != nil {
		t.Log(err)
	}
	peers := []struct {
		name    string
		command []string
		probe   []string
		each    benchstats.Series
		worst   float64 // largest excess of the mean CRPS over ours at a point
		least   float64 // smallest
	}{
		{name: "SciPy, L-BFGS-B", command: []string{python, "emos_scipy.py"}, probe: []string{python, "-c", "import scipy"}},
		{name: "R, optim, L-BFGS-B", command: []string{"Rscript", "emos_optim.R"}, probe: []string{"Rscript", "--version"}},
	}
	s := pointSet(points, dates)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	f, err := os.Create(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][]float32{s.Mean, s.Std, s.Obs} {
		if err := binary.Write(f, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var one, all benchstats.Series
	var ours []float64
	ran := 0
	for range rounds {
		theta, each := fitPoints(t, s, 1)
		one = append(one, each)
		_, each = fitPoints(t, s, runtime.NumCPU())
		all = append(all, each)
		ours = pointCRPS(s, theta[:4*first])
		for k := range peers {
			q := &peers[k]
			if exec.Command(q.probe[0], q.probe[1:]...).Run() != nil {
				t.Logf("%s is not installed", q.name)
				continue
			}
			ran++
			out := filepath.Join(dir, "theta")
			cmd := exec.Command(q.command[0], append(q.command[1:], data, strconv.Itoa(points), strconv.Itoa(dates), strconv.Itoa(first), out)...)
			cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
			cmd.Stderr = os.Stderr
			text, err := cmd.Output()
			if err != nil {
				t.Fatal(q.name, err)
			}
			seconds, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			if err != nil {
				t.Fatal(q.name, err)
			}
			q.each = append(q.each, seconds*1e6/float64(first))
			raw, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			theirs := make([]float64, 4*first)
			if _, err := binary.Decode(raw, binary.LittleEndian, theirs); err != nil {
				t.Fatal(q.name, err)
			}
			q.worst, q.least = math.Inf(-1), math.Inf(1)
			for p, c := range pointCRPS(s, theirs) {
				q.worst, q.least = max(q.worst, c/ours[p]-1), min(q.least, c/ours[p]-1)
			}
			if !(q.least > -1e-6) {
				t.Errorf("%s finds a mean CRPS that is lower by %.1e of ours", q.name, -q.least)
			}
		}
	}
	if ran == 0 {
		t.Skip("skipped: no peer is installed")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d points, %d dates; peers fit %d points; %d rounds in turn\n\n| fit | processors | µs a point | ratio | mean CRPS over ours at a point, least and most |\n|---|--:|--:|--:|--:|\n", points, dates, first, rounds)
	fmt.Fprintf(&b, "| `emos_point`, no season | 1 | %s | 1 | |\n| the same | %d | %s | %.2g | |\n", one, runtime.NumCPU(), all, all.Median()/one.Median())
	for _, q := range peers {
		if q.each != nil {
			fmt.Fprintf(&b, "| %s | 1 | %s | %.0f | %+.1e, %+.1e |\n", q.name, q.each, q.each.Median()/one.Median(), q.least, q.worst)
		}
	}
	t.Log(b.String())
}

// A sample of TestLongEMOSBesidePeers: peers find no lower score.
func TestEMOSBesidePeers(t *testing.T) { emosBesidePeers(t, 64, 60, 8, 1) }
