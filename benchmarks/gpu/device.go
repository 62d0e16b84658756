package main

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
)

// open opens the device of the command line.
func open(c *config) (backend.Backend, error) {
	for _, b := range engine.Backends {
		if b.Name == c.backend {
			return b.Open(engine.Options{Device: engine.Device{Threads: c.Threads}})
		}
	}
	return nil, fmt.Errorf("there is no backend %q", c.backend)
}
