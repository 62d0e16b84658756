//go:build !linux

package tune

import "time"

// ProcessTime is the time since the program began: the processor time is not
// known here, and time on the wall ranks.
func ProcessTime() time.Duration { return time.Since(begin) }

var begin = time.Now()
