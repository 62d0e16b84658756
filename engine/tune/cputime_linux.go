package tune

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTime returns the processor time that all threads of this process have used,
// including those of C libraries. Where the system does not report it, it returns the
// wall-clock time since the program started.
func ProcessTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return time.Since(begin) // not supported by the kernel: use wall-clock time
	}
	return time.Duration(t.Nano())
}

var begin = time.Now()
