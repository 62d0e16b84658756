package device

import "errors"

// ErrMemory marks that the memory of the device does not suffice.
var ErrMemory = errors.New("out of device memory")

// ErrNone marks that there is no GPU that can be used: no driver, one too old, or no such
// device.
var ErrNone = errors.New("no usable GPU")

// ErrLost marks that a device does no more work, because some of its work failed or the
// device itself did. Only a new process can use it again.
var ErrLost = errors.New("the GPU does no more work for this process")
