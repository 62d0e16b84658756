package spatial

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/nccl"
)

// Devices are those of the ranks of a job, which exchange values without the program. Abort may be called by any
// goroutine, the other methods within Do of the backend.
type Devices interface {
	// Join joins the devices of a group of ranks, all of which call it.
	Join(group *comm.Comm) (backend.Peers, error)
	// Err is what went wrong meanwhile in work that was asked for. It does not wait.
	Err() error
	// Abort ends that work, and lets what is asked for later fail.
	Abort(why error) error
	// Close ends all that Join has made, when the work is done.
	Close() error
}

// DeviceTransport is a way in which devices of ranks exchange values.
type DeviceTransport struct {
	Name string
	// Open looks whether it serves the devices of all ranks of c, which all call it. Where it serves none of them, why
	// says it on all ranks.
	Open func(c *comm.Comm, dev backend.Backend) (d Devices, why string, err error)
}

// DeviceTransports lists them. The first that serves is used, and if there is none, or devices are no device with memory of
// their own, the program exchanges what they have.
var DeviceTransports = []DeviceTransport{
	{"NCCL", func(c *comm.Comm, dev backend.Backend) (Devices, string, error) {
		d, why, err := nccl.NewDevices(c, dev)
		if d == nil {
			return nil, why, err // not a nil *nccl.Devices
		}
		return d, "", err
	}},
}

// openTransport opens the first link that serves, and says of it, or of all others why they do not.
func openTransport(c *comm.Comm, dev backend.Backend) (d Devices, said string, err error) {
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
	return nil, "memory of the host; " + strings.Join(reasons, "; "), nil
}
