package input

import (
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
)

// RereadWarning says that again was needed.
const RereadWarning = "the input changed while it was read, and was read again"

// RetryIfChanged calls f, and once more if an input file changed under it; before, what was read is
// discarded.
func RetryIfChanged(f func() error, discard func()) error {
	err := f()
	if fingerprint.IsChanged(err) {
		discard()
		err = f()
	}
	return err
}
