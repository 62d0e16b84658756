package cuda

import (
	"os"
	"strconv"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/gpu"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// Options of the backend.
type Options struct {
	// Choices repeats what an earlier backend chose (Choices), where it is served.
	Choices map[string]string
	// TF32 lets convolutions of float32 round what they multiply to 11 bits.
	TF32 bool
}

// Open opens the GPU of this process: the first, or where a launcher started several
// processes on this machine, that of its number among them.
//
// Errors: *exit.Error (exit.NoDevice) if there is none, or the driver or the compiler of
// kernels is missing.
func Open(o Options) (backend.Backend, error) {
	n, err := gpu.Count()
	if err != nil {
		return nil, err
	}
	if _, err := nvrtc.Open(); err != nil {
		return nil, err
	}
	b, err := New(func() (device.Device, error) { return gpu.Open(localRank(os.Getenv) % max(n, 1)) })
	if err != nil {
		return nil, err // not a nil *Backend
	}
	b.SetTimings(tune.Open("", b.Machine(), nil))
	b.SetChoices(o.Choices)
	b.AllowTF32(o.TF32)
	return b, nil
}

// localRanks are where launchers tell a process its number among those of its machine:
// Open MPI, MPICH and Intel MPI, Slurm, PALS.
var localRanks = []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PALS_LOCAL_RANKID"}

// localRank is that number; 0 without a launcher.
func localRank(env func(string) string) int {
	for _, name := range localRanks {
		if n, err := strconv.Atoi(env(name)); err == nil && n >= 0 {
			return n
		}
	}
	return 0
}
