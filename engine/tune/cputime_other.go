//go:build !linux

package tune

import "time"

// ProcessTime returns the processor time that all threads of this process have used,
// including those of C libraries. Where the system does not report it, it returns the
// wall-clock time since the program started.
func ProcessTime() time.Duration { return time.Since(begin) }

var begin = time.Now()
