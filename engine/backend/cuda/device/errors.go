package device

import "errors"

// ErrOutOfMemory marks that the memory of the device does not suffice.
var ErrOutOfMemory = errors.New("out of device memory")

// ErrNoDevice marks that there is no GPU that can be used: no driver, one too old, or no such
// device.
var ErrNoDevice = errors.New("no usable GPU")

// ErrLost marks that a device does no more work, because some of its work failed or the
// device itself did. Only a new process can use it again.
var ErrLost = errors.New("the GPU does no more work for this process")
