package ensemble

import "time"

// Init is the time a forecast started from (CF forecast_reference_time), UTC.
// For an analysis it equals the valid time.
type Init struct{ time.Time }

// Valid is the time a field is valid at (CF time), UTC.
type Valid struct{ time.Time }

// Lead is the forecast period: valid time minus init.
type Lead time.Duration

// InitAt gives the Init of a time in UTC, so that equal instants are equal values.
func InitAt(t time.Time) Init { return Init{t.UTC()} }

// ValidAt gives the Valid of a time in UTC.
func ValidAt(t time.Time) Valid { return Valid{t.UTC()} }

// Valid is the init plus a lead.
func (i Init) Valid(l Lead) Valid { return Valid{i.Add(time.Duration(l)).UTC()} }

// Hours is the lead in hours.
func (l Lead) Hours() float64 { return time.Duration(l).Hours() }

// String prints whole hours as "48h" and anything else as Go durations do.
func (l Lead) String() string {
	d := time.Duration(l)
	if d%time.Hour == 0 {
		return itoa(int64(d/time.Hour)) + "h"
	}
	return d.String()
}

// String prints UTC with Z.
func (i Init) String() string { return i.UTC().Format("2006-01-02T15:04Z") }

// String prints UTC with Z.
func (v Valid) String() string { return v.UTC().Format("2006-01-02T15:04Z") }
