package ensemble

import "time"

// Init is the initialisation time of a forecast (CF forecast_reference_time), UTC. For an analysis
// it equals the valid time.
type Init struct{ time.Time }

// Valid is the valid time of a field (CF time), UTC.
type Valid struct{ time.Time }

// Lead is the forecast period (CF forecast_period): valid time minus init.
type Lead time.Duration

// InitAt converts a time to UTC, so that equal instants are equal values.
func InitAt(t time.Time) Init { return Init{t.UTC()} }

// ValidAt converts a time to UTC, so that equal instants are equal values.
func ValidAt(t time.Time) Valid { return Valid{t.UTC()} }

// Valid is the valid time at a lead.
func (i Init) Valid(l Lead) Valid { return Valid{i.Add(time.Duration(l)).UTC()} }

// Hours is the lead in hours.
func (l Lead) Hours() float64 { return time.Duration(l).Hours() }

// String formats whole hours as "48h", other durations as time.Duration.
func (l Lead) String() string {
	d := time.Duration(l)
	if d%time.Hour == 0 {
		return itoa(int64(d/time.Hour)) + "h"
	}
	return d.String()
}

// String formats the time in UTC: "2026-01-03T12:00Z".
func (i Init) String() string {
	if i.IsZero() {
		return "-"
	}
	return i.UTC().Format("2006-01-02T15:04Z")
}

// String formats the time in UTC: "2026-01-03T12:00Z".
func (v Valid) String() string { return v.UTC().Format("2006-01-02T15:04Z") }
