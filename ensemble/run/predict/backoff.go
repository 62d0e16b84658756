package predict

import (
	"time"

	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// maxLookPause is the longest pause between two looks at an unchanged file that could not be read.
const maxLookPause = 10 * time.Minute

// isContentFault reports whether an error is a fault of the bytes of a file, which stays until the file changes.
// Any other error, such as a missing decoder, permission, memory or space, may be gone at the next look at the same
// bytes.
func isContentFault(err error) bool { return exit.CodeOf(err) == exit.BadData }

// retryTimer schedules the next look at what failed for another reason than the bytes of the files. The zero value is
// due.
type retryTimer struct {
	failures int
	next     time.Time
}

// fail schedules the next look: at the next poll, then after twice as long for each failure, up to maxLookPause.
func (b *retryTimer) fail(now time.Time, poll time.Duration) {
	b.failures++
	b.next = now.Add(backoff.Delay(poll, maxLookPause, b.failures))
}

// isDue reports whether the pause is over.
func (b *retryTimer) isDue(now time.Time) bool { return !now.Before(b.next) }
