package dnnl

import "fmt"

// Status is an answer of oneDNN other than success.
type Status int

// The statuses have the same numbers in 2.x and 3.x up to NotRequired.
const (
	OutOfMemory      Status = 1
	InvalidArguments Status = 2
	Unimplemented    Status = 3
)

// Error is the status in words.
func (s Status) Error() string {
	switch s {
	case OutOfMemory:
		return "out of memory"
	case InvalidArguments:
		return "invalid arguments"
	case Unimplemented:
		return "no implementation for this shape, layout or algorithm"
	}
	return fmt.Sprintf("oneDNN status %d", int(s))
}
