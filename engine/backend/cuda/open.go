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

// Options configures Open.
type Options struct {
	// Choices are the kernel variants that an earlier backend chose (Backend.Choices);
	// they are used where they are supported.
	Choices map[string]string
	// TF32 rounds the factors of float32 convolutions to 11 bits of mantissa, for the
	// tensor cores. Sums stay in float32.
	TF32 bool
}

// Open opens the GPU of this process: the first one, or, if an MPI launcher started
// several processes on this machine, the one with the local rank of the process.
//
// Errors: *exit.Error (exit.NoDevice) if there is no GPU, or the driver or NVRTC is
// missing.
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

// localRanks are the environment variables in which launchers pass the local rank: Open
// MPI, MPICH and Intel MPI, Slurm, PALS.
var localRanks = []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PALS_LOCAL_RANKID"}

// localRank returns the local rank; 0 without a launcher.
func localRank(env func(string) string) int {
	for _, name := range localRanks {
		if n, err := strconv.Atoi(env(name)); err == nil && n >= 0 {
			return n
		}
	}
	return 0
}
