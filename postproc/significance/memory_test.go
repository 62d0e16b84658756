package significance

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMemoryOf(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, rho := range []float64{0, 0.5, 0.8} {
		var dates, lag, block float64
		const trials, n = 200, 400
		for range trials {
			m := MemoryOf(autoregressive(r, n, rho))
			dates, lag, block = dates+m.Independent/trials, lag+m.Lag1/trials, block+float64(m.Block)/trials
		}
		if want := n * (1 - rho) / (1 + rho); dates < 0.75*want || dates > 1.1*want {
			t.Errorf("correlation %g: %.1f independent dates, want about %.1f", rho, dates, want)
		}
		if lag < rho || lag > rho+0.06 {
			t.Errorf("correlation %g: lag 1 %.3f", rho, lag)
		}
		// (3/2 (2ρ/(1−ρ²))² n)^⅓: 1 without memory, 8.1 and 17.8.
		if want := math.Cbrt(1.5 * math.Pow(2*rho/(1-rho*rho), 2) * n); math.Abs(block-want) > 0.2*want+2 {
			t.Errorf("correlation %g: blocks of %.1f, want about %.1f", rho, block, want)
		}
	}
	// Below noise of the same variance the correlation at lag k is 0.8ᵏ/2: 400 dates are worth 80, not the 170 of 0.4ᵏ.
	var dates float64
	for range 100 {
		x := autoregressive(r, 400, 0.8)
		for i := range x {
			x[i] += r.NormFloat64()
		}
		dates += MemoryOf(x).Independent / 100
	}
	if dates < 65 || dates > 110 {
		t.Errorf("memory below noise: %.1f independent dates, want about 80", dates)
	}
	// However long the memory, half an interval is at most 3.52 standard deviations of the dates.
	for _, n := range []int{MinDates, 20, 60, 365} {
		for _, noise := range []float64{0, 0.1, 1, 10} {
			x := make([]float64, n)
			for i := range x {
				x[i] = 5*float64(i)/float64(n) + noise*r.NormFloat64()
			}
			m, sd := MemoryOf(x), math.Sqrt(autocovariance(x, 0)[0])
			if half := m.halfWidth(0.95) / sd; half > 3.52 || m.Independent < leastIndependent || noise == 0 && half < 3.5 {
				t.Errorf("a trend over %d dates, noise %g: half %.2f standard deviations, %+v", n, noise, half, m)
			}
		}
	}
	if m := MemoryOf(slices.Repeat([]float64{0.1}, 20)); m.StandardError != 0 || m.Block != 1 {
		t.Errorf("a constant series: %+v", m)
	}
	if m := MemoryOf([]float64{1}); !math.IsNaN(m.StandardError) {
		t.Errorf("one date: %+v", m)
	}
}

// A memory that noise hides is seen with the memory of other series, or with the autocovariance of the noise, which is left out of
// the standard error.
func TestHiddenMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const trials, n, noise = 200, 60, 0.5
	var clean, alone, known, other float64 // squared standard errors
	for range trials {
		x := autoregressive(r, n, 0.8)
		clean += square(MemoryOf(x).StandardError) / trials
		for i := range x {
			x[i] += math.Sqrt(noise) * r.NormFloat64()
		}
		alone += square(MemoryOf(x).StandardError) / trials
		other += square(memoryOf(x, hidden{0.8, fitUplift}, nil).StandardError) / trials
		known += square(memoryOf(x, hidden{}, []float64{noise, 0, 0, 0, 0, 0}).StandardError) / trials
	}
	if math.Abs(known/clean-1) > 0.15 || alone > 0.7*clean || other < 1.05*alone {
		t.Errorf("squared standard errors: %.4f without noise, %.4f with known noise; %.4f with noise, %.4f with the memory of others", clean, known, alone, other)
	}
}
