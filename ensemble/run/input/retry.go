package input

import (
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
)

// RereadWarning is the warning after a retry.
const RereadWarning = "the input changed while it was read, and was read again"

// RetryIfChanged calls f, and a second time if an input file changed during the first call. discard drops what the
// first call read.
func RetryIfChanged(f func() error, discard func()) error {
	err := f()
	if fingerprint.IsChanged(err) {
		discard()
		err = f()
	}
	return err
}
