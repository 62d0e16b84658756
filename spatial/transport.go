package spatial

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/nccl"
)

// Devices exchanges values directly between the devices of a job's ranks, without
// copies through host memory.
//
// Concurrency: any goroutine may call Abort; the other methods run within Do of the
// backend.
type Devices interface {
	// Join creates a communicator of the devices of a group. All ranks of the group
	// call it.
	Join(group *comm.Comm) (backend.Peers, error)
	// Err returns the error of an operation that failed asynchronously. It does not
	// wait.
	Err() error
	// Abort ends all operations in progress. Later operations fail with why.
	Abort(why error) error
	// Close releases all communicators. It is called after the last operation has
	// ended.
	Close() error
}

// DeviceTransport is a transport between the devices of ranks.
type DeviceTransport struct {
	Name string
	// Open opens the transport for the devices of all ranks of c, which all call
	// it. If a device does not support it, d is nil on all ranks and why states the
	// reason.
	Open func(c *comm.Comm, dev backend.Backend) (d Devices, why string, err error)
}

// DeviceTransports lists the transports in order of preference. The first that
// supports the devices of all ranks is used. If none does, or the backend has no
// device memory, values go through host memory.
var DeviceTransports = []DeviceTransport{
	{"NCCL", func(c *comm.Comm, dev backend.Backend) (Devices, string, error) {
		d, why, err := nccl.NewDevices(c, dev)
		if d == nil {
			return nil, why, err // a nil *nccl.Devices would be a non-nil interface
		}
		return d, "", err
	}},
}

// openTransport opens the first transport that supports all devices. description is
// its name, or, if d is nil, the reason why each transport is not available.
func openTransport(c *comm.Comm, dev backend.Backend) (d Devices, description string, err error) {
	var reasons []string
	for _, l := range DeviceTransports {
		d, why, err := l.Open(c, dev)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", l.Name, err)
		}
		if d != nil {
			return d, l.Name, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", l.Name, why))
	}
	return nil, "host memory; " + strings.Join(reasons, "; "), nil
}
