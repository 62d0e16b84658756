package cuda

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLocalRank: every launcher's word is understood, and one process alone takes the first
// GPU.
func TestLocalRank(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want int
	}{
		{nil, 0},
		{map[string]string{"OMPI_COMM_WORLD_LOCAL_RANK": "3"}, 3},
		{map[string]string{"MPI_LOCALRANKID": "2"}, 2},
		{map[string]string{"SLURM_LOCALID": "1"}, 1},
		{map[string]string{"SLURM_LOCALID": "none"}, 0},
	} {
		if got := localRank(func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("%v: %d, want %d", c.env, got, c.want)
		}
	}
}

// TestOpen: a GPU or the reason that there is none, with the exit code of a missing device.
func TestOpen(t *testing.T) {
	b, err := Open(Options{})
	if err == nil {
		err = b.Close()
	} else if exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("exit code %d", exit.CodeOf(err))
	}
	t.Log(err)
}
