package demo

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Config configures the synthetic data set. The zero value means the defaults.
type Config struct {
	Seed      uint64        // seed of all random streams
	FirstInit time.Time     // first initialisation time; default 2001-01-01T00Z
	Interval  time.Duration // between initialisation times, a multiple of 6 h; default 7 days
	Inits     int           // number of initialisation times; default 208, weekly over four years
	// InitTimes replace FirstInit, Interval and Inits. They ascend in multiples of 6 h. In gaps of
	// more than two weeks, unneeded periods are not simulated.
	InitTimes []time.Time
	Members   int             // including the control member; default 10
	Leads     []ensemble.Lead // ascending, multiples of 6 h; default 0, 24, 48 h
	Threads   int             // number of parallel forecasts; default GOMAXPROCS. The result does not depend on it
}

// WithDefaults returns the Config with default values for unset fields.
//
// Errors: lead times that are not multiples of 6 h; an empty data set.
func (c Config) WithDefaults() (Config, error) {
	if len(c.InitTimes) > 0 {
		c.FirstInit, c.Inits = c.InitTimes[0], len(c.InitTimes)
	}
	if c.FirstInit.IsZero() {
		c.FirstInit = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	c.FirstInit = c.FirstInit.UTC()
	if c.Interval == 0 {
		c.Interval = 7 * 24 * time.Hour
	}
	if c.Inits == 0 {
		c.Inits = 208
	}
	if c.Members == 0 {
		c.Members = 10
	}
	if c.Leads == nil {
		c.Leads = []ensemble.Lead{0, ensemble.Lead(24 * time.Hour), ensemble.Lead(48 * time.Hour)}
	}
	if c.Threads == 0 {
		c.Threads = runtime.GOMAXPROCS(0)
	}
	switch {
	case c.Inits < 1 || c.Members < 1 || c.Threads < 1:
		return c, fmt.Errorf("demo: starts %d, members %d, threads %d: each must be at least 1", c.Inits, c.Members, c.Threads)
	case c.Interval < cycleLength || c.Interval%cycleLength != 0:
		return c, fmt.Errorf("demo: starts every %v: want a multiple of %v", c.Interval, cycleLength)
	case len(c.Leads) == 0 || !slices.IsSorted(c.Leads) || c.Leads[0] < 0:
		return c, fmt.Errorf("demo: leads %v: want at least one, ascending from 0 or later", c.Leads)
	}
	for i := 1; i < len(c.InitTimes); i++ {
		if gap := c.InitTimes[i].Sub(c.InitTimes[i-1]); gap < cycleLength || gap%cycleLength != 0 {
			return c, fmt.Errorf("demo: start %v after %v: want multiples of %v between them", c.InitTimes[i], c.InitTimes[i-1], cycleLength)
		}
	}
	for i, l := range c.Leads {
		if time.Duration(l)%cycleLength != 0 || i > 0 && l == c.Leads[i-1] {
			return c, fmt.Errorf("demo: lead %v: want distinct multiples of %v", l, cycleLength)
		}
	}
	return c, nil
}

// Case is one forecast case: the ensemble forecast and the verifying analyses. The forecast and the
// analyses have one grid, so they can be compared point by point.
type Case struct {
	Forecast *ensemble.Forecast   // all members, Variables and Levels at the leads
	Analyses []*ensemble.Analysis // nature run at the valid time of each lead time
}
