package dnnl

import "fmt"

// Status is an error code of oneDNN.
type Status int

// The codes that have texts; they have the same numbers in 2.x and 3.x.
const (
	OutOfMemory      Status = 1
	InvalidArguments Status = 2
	Unimplemented    Status = 3
)

// Error returns the text of the code.
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
