package launch

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The environment decides between TCP, an MPI launcher and a single process.
func TestDetect(t *testing.T) {
	for _, k := range []struct {
		env       map[string]string
		transport string
		size      int
		rank      int
		unjoined  int
	}{
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"}, "Open MPI", 4, 1, 0},
		{map[string]string{"ENSEMBLE_COORDINATOR": "node:1", "ENSEMBLE_RANKS": "3", "ENSEMBLE_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, "TCP", 3, 2, 0},
		{map[string]string{"ENSEMBLE_COORDINATOR": "node:1", "ENSEMBLE_RANKS": "3", "JOB_COMPLETION_INDEX": "1"}, "TCP", 3, 1, 0},
		{map[string]string{"ENSEMBLE_COORDINATOR": "node:1", "SLURM_NTASKS": "8", "SLURM_PROCID": "7", "SLURM_STEP_NUM_TASKS": "8"}, "TCP", 8, 7, 0},
		{map[string]string{"SLURM_NTASKS": "8", "SLURM_PROCID": "7", "SLURM_STEP_NUM_TASKS": "8"}, "", 0, 0, 8},
		{nil, "", 0, 0, 0},
	} {
		env := func(name string) string { return k.env[name] }
		l, ok := Detect(env)
		if ok != (k.transport != "") || l.Transport != k.transport || l.Size != k.size || l.Rank != k.rank || UnjoinedTasks(env) != k.unjoined {
			t.Errorf("%v: %q, rank %d of %d, %v", k.env, l.Transport, l.Rank, l.Size, ok)
		}
	}
}

// A job over TCP that is not described completely is refused when it is joined.
func TestIncomplete(t *testing.T) {
	for _, env := range []map[string]string{
		{"ENSEMBLE_COORDINATOR": "127.0.0.1:7700"},
		{"ENSEMBLE_COORDINATOR": "127.0.0.1:7700", "ENSEMBLE_RANKS": "2"},
		{"ENSEMBLE_COORDINATOR": "127.0.0.1:7700", "ENSEMBLE_RANKS": "two", "ENSEMBLE_RANK": "0"},
		{"ENSEMBLE_COORDINATOR": "127.0.0.1:7700", "ENSEMBLE_RANKS": "1", "ENSEMBLE_RANK": "0", "ENSEMBLE_LINK_RATE": "fast"},
		{"ENSEMBLE_COORDINATOR": "127.0.0.1", "ENSEMBLE_RANKS": "1", "ENSEMBLE_RANK": "0"},
		{"ENSEMBLE_COORDINATOR": "127.0.0.1:7700", "ENSEMBLE_RANKS": "2", "ENSEMBLE_RANK": "2"},
	} {
		l, ok := Detect(func(name string) string { return env[name] })
		if !ok {
			t.Fatalf("%v: no job", env)
		}
		if _, err := l.Join(time.Second); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%v: %v", env, err)
		}
	}
}
