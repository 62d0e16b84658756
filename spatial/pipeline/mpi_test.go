//go:build cgo && linux

package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// rankVariable makes this test binary a rank of an MPI job.
const rankVariable = "ENSEMBLE_PIPELINE_TEST"

// rankTB lets ranks, which run outside of a test, build the networks of tests.
type rankTB struct{ testing.TB }

func (rankTB) Helper()                  {}
func (rankTB) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (rankTB) Context() context.Context { return context.Background() }

func TestMain(m *testing.M) { mpitest.Main(m, rankVariable, asRank) }

// rankJobs are what ranks run, by the value of rankVariable up to a colon; the rest is its argument. They return lines to print.
var rankJobs = map[string]func(c *comm.Comm, argument string) ([]string, error){
	"sums": func(c *comm.Comm, _ string) ([]string, error) { return sums(context.Background(), rankTB{}, c) },
}

// overMPI are the schedules of the jobs.
var overMPI = []string{"gpipe", "1f1b", "chimera"}

// sums identifies the parameters and gradients of a rank for each schedule of overMPI, with a stage on each rank, and on four ranks
// also with stages on two.
func sums(ctx context.Context, t testing.TB, c *comm.Comm) ([]string, error) {
	meshes := []string{""}
	if c.Size() == 4 {
		meshes = append(meshes, "lat:2", "data:2")
	}
	var lines []string
	for _, text := range meshes {
		m := parse(t, text)
		d := c.Size() / m.Size()
		all, stages := schedules(t, d), splitEvenly(t, smallUNet(t), d)
		for _, name := range overMPI {
			out, err := pipelined(ctx, c, all[name], stages, Options{Mesh: m}, 2)
			if err != nil {
				return nil, err
			}
			h := sha256.New()
			for _, p := range slices.Sorted(maps.Keys(out.params)) {
				for _, x := range [][]float32{out.params[p], out.grads[p]} {
					if err := binary.Write(h, binary.LittleEndian, x); err != nil {
						return nil, err
					}
				}
			}
			lines = append(lines, fmt.Sprintf("%s %s rank %d of %d %.12x losses %v, %d bytes of activations", name, text, c.Rank(), c.Size(), h.Sum(nil), out.losses, out.activations))
		}
	}
	return lines, nil
}

func asRank(what string) error {
	l, ok := mpi.Launched(os.Getenv)
	if !ok {
		return errors.New("no launcher is seen")
	}
	w, err := mpi.Join(l, time.Minute)
	if err != nil {
		return err
	}
	name, argument, _ := strings.Cut(what, ":")
	lines, err := rankJobs[name](comm.New(w), argument)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(lines, "\n"))
	return w.Close()
}

// Over MPI every rank has the bits of the ranks of one process, which are those of the training without a pipeline
// (TestPipelinesHaveSerialBits, TestGroupsHaveTheBitsOfTheMesh).
func TestPipelinesOverMPI(t *testing.T) {
	for _, ranks := range []int{2, 4} {
		want := make([][]string, ranks)
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) (err error) {
			want[c.Rank()], err = sums(t.Context(), t, c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, launcher := range mpitest.Launchers {
			t.Run(launcher+" "+strconv.Itoa(ranks), func(t *testing.T) {
				path := mpitest.Path(t, launcher)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				out, err := mpitest.Command(ctx, t, path, ranks, rankVariable+"=sums").CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for _, line := range slices.Concat(want...) {
					if !strings.Contains(string(out), line) {
						t.Errorf("no line %q in\n%s", line, out)
					}
				}
			})
		}
	}
}
