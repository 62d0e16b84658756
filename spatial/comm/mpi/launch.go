package mpi

import "strconv"

// Launch is what a launcher says to the processes that it starts.
type Launch struct {
	Implementation Implementation
	Size           int // ranks it has started
	Rank           int // of this process; −1 if the launcher does not tell
}

// Launched reads from the environment, as os.Getenv gives it, who started this
// process: mpirun of Open MPI or of MPICH, or srun with the interface of either. ok
// is false if it was no MPI launcher.
func Launched(getenv func(string) string) (l Launch, ok bool) {
	for _, v := range []struct {
		size, rank string
		of         int // Implementations
	}{{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 0}, {"PMI_SIZE", "PMI_RANK", 1}} {
		if n, err := strconv.Atoi(getenv(v.size)); err == nil && n > 0 {
			return Launch{Implementations[v.of], n, parseCount(getenv(v.rank))}, true
		}
	}
	// srun --mpi=pmix starts Open MPI, and tells the size as a number of tasks.
	if n, err := strconv.Atoi(getenv("SLURM_NTASKS")); err == nil && n > 0 && getenv("PMIX_RANK") != "" {
		return Launch{Implementations[0], n, parseCount(getenv("PMIX_RANK"))}, true
	}
	return Launch{}, false
}

// UnjoinedTasks is how many tasks srun started without an interface of MPI, so that each is a job
// of its own; 0 where that is not so.
func UnjoinedTasks(getenv func(string) string) int {
	if _, launched := Launched(getenv); launched {
		return 0
	}
	if n := parseCount(getenv("SLURM_STEP_NUM_TASKS")); n > 1 {
		return n
	}
	return 0
}

// parseCount reads a rank or a count; −1 if it is none.
func parseCount(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
