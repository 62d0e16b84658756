//go:build cgo && linux

package topk

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// rankVariable makes this test binary a rank of an MPI job; its value selects the program.
const rankVariable = "ENSEMBLE_TOPK_TEST"

func TestMain(m *testing.M) { mpitest.Main(m, rankVariable, asRank) }

func asRank(what string) error {
	l, ok := mpi.Launched(os.Getenv)
	if !ok {
		return errors.New("no launcher is seen")
	}
	w, err := mpi.Join(l, time.Minute)
	if err != nil {
		return err
	}
	c := comm.New(w)
	if what == "bits" {
		sum, err := digest(c)
		if err != nil {
			return err
		}
		fmt.Printf("rank %d %s\n", c.Rank(), sum)
	} else if err := measure(c); err != nil {
		return err
	}
	return w.Close()
}

// digest identifies the results and the residual of some steps.
func digest(c *comm.Comm) (string, error) {
	const n = 3000
	r, err := New(n, Options{Density: 0.02, BFloat16: true, Momentum: 0.5})
	h := sha256.New()
	for s := 0; err == nil && s < 5; s++ {
		var u Entries
		if u, err = r.Sum(c, comm.Parts[float32]{gradients(rand.New(rand.NewPCG(uint64(c.Rank()), uint64(s))), 1, n, false)[0]}); err == nil {
			err = errors.Join(binary.Write(h, binary.LittleEndian, u.Index), binary.Write(h, binary.LittleEndian, u.Value))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// Processes over MPI have the bits of goroutines.
func TestOverMPI(t *testing.T) {
	const ranks = 3
	var want collected[string]
	if err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
		sum, err := digest(c)
		want.put(c.Rank(), sum)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, launcher := range mpitest.Launchers {
		t.Run(launcher, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			out, err := mpitest.Command(ctx, t, mpitest.Path(t, launcher), ranks, rankVariable+"=bits").CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for r := range ranks {
				if line := fmt.Sprintf("rank %d %s", r, want.of[r]); !strings.Contains(string(out), line) {
					t.Errorf("want %q:\n%s", line, out)
				}
			}
		})
	}
}

// Gradients of the base-32 network, summed in buckets as in a training.
const (
	baseValues = 17_142_689
	buckets    = 16
)

// measure prints the time and bytes of the sums of one step, dense and sparse, on rank 0. On one rank that is the cost of
// selection. The time is the sum over buckets of the shortest of several steps, as other programs may disturb it.
// ENSEMBLE_TOPK_DENSITIES lists densities; 0 is dense.
func measure(c *comm.Comm) error {
	const n, warm, steps = baseValues / buckets, 2, 9
	rng := rand.New(rand.NewPCG(uint64(c.Rank()), 3))
	base, x := make([]float32, n), make([]float32, n)
	for i := range base {
		base[i] = float32(rng.NormFloat64() * rng.ExpFloat64())
	}
	for _, text := range strings.Fields(os.Getenv("ENSEMBLE_TOPK_DENSITIES")) {
		density, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		reducers := make([]*Reducer, buckets)
		for b := range reducers {
			if reducers[b], err = New(n, Options{Density: max(density, 1e-9)}); err != nil {
				return err
			}
		}
		var took [buckets]time.Duration
		var sent int64
		for s := range warm + steps {
			for b := range buckets {
				for i := range x {
					x[i] = base[i] * float32(1+(i+s)%5) // changes from step to step
				}
				if err := comm.Barrier(c); err != nil {
					return err
				}
				began, before := time.Now(), c.Traffic()
				if density == 0 {
					err = comm.AllReduce(c, x, comm.Auto)
				} else {
					_, err = reducers[b].Sum(c, comm.Parts[float32]{x})
				}
				if err != nil {
					return err
				}
				if d := time.Since(began); s == warm || s > warm && d < took[b] {
					took[b] = d
				}
				if s >= warm {
					sent += c.Traffic().Sub(before).Bytes
				}
			}
		}
		var all time.Duration
		for _, d := range took {
			all += d
		}
		if c.Rank() == 0 {
			fmt.Printf("%d ranks, density %g: %.0f ms and %.2f MB sent a step\n", c.Size(), density, 1000*all.Seconds(), float64(sent)/1e6/steps)
		}
	}
	return nil
}

// BenchmarkExchangeOverMPI measures the sums of a step on processes of Open MPI. Options of the launcher come from the
// environment, such as OMPI_MCA_btl=tcp,self.
func BenchmarkExchangeOverMPI(b *testing.B) {
	for _, ranks := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			for range b.N {
				out, err := mpitest.Command(context.Background(), b, mpitest.Path(b, mpitest.Launchers[0]), ranks, rankVariable+"=measure", "ENSEMBLE_TOPK_DENSITIES=0 0.01 0.02 0.05").CombinedOutput()
				if err != nil {
					b.Fatalf("%v:\n%s", err, out)
				}
				b.Logf("\n%s", out)
			}
		})
	}
}
