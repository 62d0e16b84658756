package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// TestShareOf: the case that a rank measures has the samples, rows and columns of its shard.
func TestShareOf(t *testing.T) {
	for _, c := range []struct {
		mesh                 string
		batch, height, width int
	}{
		{"", 4, 256, 512},
		{"data:2", 2, 256, 512},
		{"lat:2", 4, 128, 512},
		{"data:2 lat:2 lon:2", 2, 128, 256},
		{"lat:4 lon:2", 4, 64, 256},
		{"level:2", 4, 128, 512},
		{"data:8", 1, 256, 512},
		{"lat:16", 4, 32, 512},
	} {
		mesh, err := spatial.ParseMesh(c.mesh)
		if err != nil {
			t.Fatal(err)
		}
		got := Case{Batch: 4, Crop: setup.Crop{Height: 256, Width: 512}}.shareOf(mesh)
		if got.Batch != c.batch || got.Crop.Height != c.height || got.Crop.Width != c.width {
			t.Errorf("%q: %d samples of %d×%d points, want %d of %d×%d", c.mesh, got.Batch, got.Crop.Height, got.Crop.Width, c.batch, c.height, c.width)
		}
	}
	if got := (Case{Batch: 1, Crop: setup.Crop{Height: 361, Width: 720}}).shareOf(spatial.Mesh{{Name: "lat", Size: 2}}); got.Crop.Height != 361 {
		t.Errorf("361 rows are no whole cells, but the share has %d", got.Crop.Height)
	}
}

// TestInLockstep: in each interval ranks wait for the slowest of those with the same samples, at the end of a step for the slowest of
// all; the median of the steps counts.
func TestInLockstep(t *testing.T) {
	mesh, err := spatial.ParseMesh("data:2 lat:2")
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	own := [][][]time.Duration{ // by rank, step and interval
		{{1 * ms, 5 * ms}, {1 * ms, 5 * ms}, {90 * ms, 5 * ms}},
		{{4 * ms, 3 * ms}, {4 * ms, 3 * ms}, {4 * ms, 3 * ms}},
		{{1 * ms, 1 * ms}, {7 * ms, 7 * ms}, {7 * ms, 7 * ms}},
		{{2 * ms, 1 * ms}, {6 * ms, 6 * ms}, {5 * ms, 5 * ms}},
	}
	// Steps of the first group take 9, 9 and 95 ms, those of the second 3, 14 and 14 ms.
	const want = 14 * ms
	err = comm.Run(len(own), comm.Parallel, func(c *comm.Comm) error {
		got, err := inLockstep(c, mesh, own[c.Rank()])
		if err == nil && (got-want).Abs() > time.Microsecond {
			err = fmt.Errorf("rank %d: %v, want %v", c.Rank(), got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
