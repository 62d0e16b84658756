package baseline

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/scratch"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// inFiles copies a set to files.
func (s *Set) inFiles(t *testing.T) *Set {
	t.Helper()
	t.Setenv("TMPDIR", "")
	out := &Set{Valid: s.Valid, Weights: s.Weights, Space: scratch.New(t.TempDir(), 0)}
	for to, from := range map[*[]float32][]float32{&out.Mean: s.Mean, &out.Std: s.Std, &out.Obs: s.Obs, &out.Members: s.Members} {
		a, err := out.Space.Make(len(from), "a test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		if err := a.Write(0, from, "a test"); err != nil {
			t.Fatal(err)
		}
		*to = a.Values
	}
	return out
}

// Every fit of a set in files has the bits of one in memory, and each of its passes counts every point once.
func TestFitsInFiles(t *testing.T) {
	many := synthetic(40, sparsePoints+100, 3, func(_ int, _ time.Time, m, s float64) (mu, sigma float64) { return m + 1, 0.5 + s })
	compare := func(m *Method, s *Set) {
		want, err := m.Fit(s)
		if err != nil {
			t.Fatal(m.ID, err)
		}
		large := s.inFiles(t)
		var mu sync.Mutex
		var stages []string
		counts := map[int][2]int{} // done and total of each pass
		large.Watch = func(stage string, points int) func(int) {
			k := len(stages)
			stages = append(stages, stage)
			counts[k] = [2]int{0, points}
			return func(n int) {
				mu.Lock()
				defer mu.Unlock()
				c := counts[k]
				c[0] += n
				counts[k] = c
			}
		}
		got, err := m.Fit(large)
		if err != nil {
			t.Fatal(m.ID, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a fit in files differs from one in memory", m.ID)
		}
		for k, c := range counts {
			if c[0] != c[1] || c[1] == 0 {
				t.Errorf("%s: %q counted %d of %d points", m.ID, stages[k], c[0], c[1])
			}
		}
		if len(stages) == 0 {
			t.Errorf("%s reports no progress", m.ID)
		}
	}
	few := wind(150, 7, 5, 1)
	for _, m := range Methods {
		if m.Family == dist.CSGamma {
			compare(m, few.rain())
		} else {
			compare(m, few)
		}
	}
	compare(MethodByID("emos_grid"), many)
	want, err := FitAffineSpread(few)
	if got, err2 := FitAffineSpread(few.inFiles(t)); got != want || err != nil || err2 != nil {
		t.Errorf("affine spread %v in files, %v in memory (%v, %v)", got, want, err2, err)
	}
}

// A full disk is reported by the fits that copy the set.
func TestFullDisk(t *testing.T) {
	s := wind(60, 3, 5, 1)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	s.Space = scratch.New("", 0)
	if _, err := MethodByID("samos").Fit(s); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("samos: %v, want exit %d", err, exit.CannotWrite)
	}
	if _, err := s.Subset([]int{0, 1}); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("subset: %v, want exit %d", err, exit.CannotWrite)
	}
}

// A sample of TestLongGlobalGrid.
func TestGlobalGridSample(t *testing.T) { fitInChild(t, 6000, 24) }

// childSize is the environment variable with the size of the set that a child process fits: "points dates".
const childSize = "BASELINE_TEST_CHILD"

func TestMain(m *testing.M) {
	if size := os.Getenv(childSize); size != "" {
		if err := fitAsChild(size); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fitAsChild fits baselines to data in files of the working directory, and prints for each the
// seconds, those of all processors, and the peak of the resident memory so far in bytes.
func fitAsChild(size string) error {
	var points, dates int
	if _, err := fmt.Sscan(size, &points, &dates); err != nil {
		return err
	}
	begin, used := time.Now(), time.Duration(0)
	s, err := largeSet(scratch.New(".", 0), points, dates)
	if err != nil {
		return err
	}
	defer s.Close()
	stage := func(name string) error {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return err
		}
		cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
		peak, err := peakMemory()
		fmt.Printf("%s %.2f %.2f %d\n", name, time.Since(begin).Seconds(), (cpu - used).Seconds(), peak)
		begin, used = time.Now(), cpu
		return err
	}
	if err := stage("write"); err != nil {
		return err
	}
	for _, id := range []string{"emos_grid", "emos_point", "emos", "climatology", "samos"} {
		if _, err := MethodByID(id).Fit(s); err != nil {
			return err
		}
		if err := stage(id); err != nil {
			return err
		}
	}
	return nil
}

// largeSet writes synthetic forecasts every third day, with a bias and a spread of their own at every point.
func largeSet(space *scratch.Space, points, dates int) (*Set, error) {
	valid := make([]time.Time, dates)
	for i := range valid {
		valid[i] = time.Date(2015, 1, 1+3*i, 0, 0, 0, 0, time.UTC)
	}
	s, err := (&Set{Valid: []time.Time{{}}, Obs: make([]float32, points), Space: space}).newSet(valid)
	if err != nil {
		return nil, err
	}
	// Normal numbers are drawn once and taken from changing places: drawing all of them would take longer than a fit.
	r := rand.New(rand.NewPCG(1, 2))
	normal := make([]float32, 1<<16)
	for i := range normal {
		normal[i] = float32(r.NormFloat64())
	}
	mean, std, obs := make([]float32, points), make([]float32, points), make([]float32, points)
	for i := range valid {
		season := float32(math.Sin(2 * math.Pi * float64(3*i) / 365.25))
		a, b, c := r.Uint32(), r.Uint32(), r.Uint32()
		for p := range mean {
			k := uint32(p)
			place := normal[k*7919&0xffff]
			mean[p] = 280 + 10*place + 8*season + 4*normal[(a+k*17)&0xffff]
			std[p] = 1 + 0.3*float32(math.Abs(float64(normal[(b+k*29)&0xffff])))
			obs[p] = mean[p] + 0.5*place + 0.7*season + (0.4+(1+0.2*place*place)*std[p])*normal[(c+k*13)&0xffff]
		}
		if err := s.put(i, mean, std, obs); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// peakMemory is the peak of the resident memory of this process in bytes.
func peakMemory() (bytes int64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err := fmt.Sscan(rest, &bytes)
			return bytes << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}

// fitInChild runs fitAsChild and returns the largest peak of the resident memory.
func fitInChild(t *testing.T, points, dates int) (peak int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = t.TempDir()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }), fmt.Sprintf("%s=%d %d", childSize, points, dates))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		var stage string
		var seconds, processor float64
		if _, err := fmt.Sscan(lines.Text(), &stage, &seconds, &processor, &peak); err != nil {
			t.Fatal(lines.Text(), err)
		}
		t.Logf("%d points, %d dates: %-10s %6.1f s, %6.1f s of processors, peak of resident memory %.2f GiB", points, dates, stage, seconds, processor, float64(peak)/(1<<30))
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		t.Errorf("the fits left %v %v", left, err)
	}
	return peak
}

// The fit for all points takes few passes also if the spread says nothing: its coefficient then tends to a large
// negative number, in whose direction the score is flat.
func TestFewPasses(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	s := synthetic(56, 96, 5, func(_ int, _ time.Time, m, _ float64) (mu, sigma float64) { return m, 1 })
	for i := range s.Std {
		s.Std[i] = float32(0.1 + 0.3*r.Float64())
	}
	passes := 0
	s.Watch = func(stage string, _ int) func(int) {
		if stage == "scores of all points" {
			passes++
		}
		return func(int) {}
	}
	if _, err := FitGridEMOS(s, GridEMOSOptions{Strengths: []float64{10}}); err != nil {
		t.Fatal(err)
	}
	if passes < 2 || passes > 15 {
		t.Errorf("%d passes over all points", passes)
	}
}

// Fits for all points that begin with the fit of a sample find the minimum over all points, in few passes.
func TestPooledFitsOfManyPoints(t *testing.T) {
	s := synthetic(30, sparsePoints+900, 3, func(p int, _ time.Time, m, sd float64) (mu, sigma float64) {
		return m + 0.1*float64(p%7), 0.4 + float64(p%5)*0.2*sd
	})
	passes := 0
	s.Watch = func(stage string, _ int) func(int) {
		if stage == "scores of all points" {
			passes++
		}
		return func(int) {}
	}
	fast, err := FitEMOS(s, EMOSOptions{})
	if err != nil || passes > 4 {
		t.Fatalf("EMOS took %d passes over all points, error %v", passes, err)
	}
	l, err := s.leastSquares("", s.Mean, s.Obs, s.Std)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := fitEMOSBFGS(s, Normal, l)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "CRPS of EMOS", fast.MeanCRPS(s), slow.MeanCRPS(s), 1e-10)
	near(t, "gamma", fast.Gamma, slow.Gamma, 1e-4)
	near(t, "delta", fast.Delta, slow.Delta, 1e-4)
	for _, link := range []Link{LinearScale, LogScale} {
		passes = 0
		r, err := FitRegression(s, RegressionOptions{Family: dist.Logistic, Link: link, Pooled: true})
		if err != nil || passes > 4 {
			t.Fatalf("link %s took %d passes over all points, error %v", link, passes, err)
		}
		score := func() float64 {
			return meanCRPS(s, nil, func(_ []float64, m, sd, y float64) float64 {
				eta := r.Scale[0] + r.Scale[1]*sd
				if link == LogScale {
					eta = math.Exp(r.Scale[0] + r.Scale[1]*math.Log(sd))
				}
				c, _, _ := r.row().crps(r.Location[0]+r.Location[1]*m, eta, y)
				return c
			})
		}
		least := score()
		for _, c := range []*float64{&r.Location[0], &r.Location[1], &r.Scale[0], &r.Scale[1]} {
			for _, change := range []float64{-1e-4, 1e-4} {
				was := *c
				*c += change
				if v := score(); !(v > least) {
					t.Errorf("link %s: other coefficients have a score of %.12f, the fit %.12f", link, v, least)
				}
				*c = was
			}
		}
	}
}
