package mpi

import "strconv"

// Launch holds the values that an MPI launcher passes to its processes.
type Launch struct {
	Implementation Implementation
	Size           int // number of ranks
	Rank           int // of this process; −1 if unknown
}

// Launched reads from the environment which launcher started this process: mpirun
// of Open MPI or MPICH, or srun with the PMI of either. getenv is os.Getenv. ok is
// false without an MPI launcher.
func Launched(getenv func(string) string) (l Launch, ok bool) {
	for _, v := range []struct {
		size, rank string
		of         int // index of Implementations
	}{{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 0}, {"PMI_SIZE", "PMI_RANK", 1}} {
		if n, err := strconv.Atoi(getenv(v.size)); err == nil && n > 0 {
			return Launch{Implementations[v.of], n, parseCount(getenv(v.rank))}, true
		}
	}
	// srun --mpi=pmix starts Open MPI and passes the size as the number of tasks
	if n, err := strconv.Atoi(getenv("SLURM_NTASKS")); err == nil && n > 0 && getenv("PMIX_RANK") != "" {
		return Launch{Implementations[0], n, parseCount(getenv("PMIX_RANK"))}, true
	}
	return Launch{}, false
}

// UnjoinedTasks returns the number of tasks that srun started without a PMI, each
// of which would be a job of its own; 0 otherwise.
func UnjoinedTasks(getenv func(string) string) int {
	if _, launched := Launched(getenv); launched {
		return 0
	}
	if n := parseCount(getenv("SLURM_STEP_NUM_TASKS")); n > 1 {
		return n
	}
	return 0
}

// parseCount parses a rank or a count; −1 if it is invalid.
func parseCount(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
