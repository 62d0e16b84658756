package input

import (
	"github.com/ensemble-weather/ensemble/internal/filemark"
)

// RereadWarning says that again was needed.
const RereadWarning = "the input changed while it was read, and was read again"

// Again calls f, and once more if an input file changed under it; before, what was read is
// discarded.
func Again(f func() error, discard func()) error {
	err := f()
	if filemark.IsChanged(err) {
		discard()
		err = f()
	}
	return err
}
