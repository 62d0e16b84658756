package device

import "errors"

// ErrMemory marks that the memory of the device does not suffice.
var ErrMemory = errors.New("out of device memory")
