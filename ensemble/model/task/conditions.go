package task

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// Conditions computes the numbers that describe a lead for networks with leads in rows: the lead,
// and phases of the year and of the day.
type Conditions struct {
	names []string
	leads []ensemble.Lead
	scale ensemble.Lead // lead with the value 1
}

// NewConditions returns conditions with the given names, for leads of a task. The lead is scaled by
// the longest lead of the training.
func (k *Task) NewConditions(names []string, leads []ensemble.Lead) Conditions {
	return Conditions{names, leads, max(1, k.trainedHorizon, slices.Max(k.Features.Axes.Leads))}
}

// PerLead is the number of values per lead: one for the lead, two (sine and cosine) for a phase.
func (c Conditions) PerLead() (n int) {
	for _, name := range c.names {
		if n += 2; name == config.LeadCondition {
			n--
		}
	}
	return n
}

// values computes the conditions of an initialisation, lead by lead:
//
//	lead         lead/scale
//	day_of_year  sin, cos of the phase of the year at the valid time
//	hour         sin, cos of 2π·(hour of day)/24 at the valid time (UTC)
//
// Sine and cosine make the end of a year or day adjacent to its start.
//
// Shape: [lead][value]. Unit: 1.
func (c Conditions) values(init ensemble.Init) (out []float32) {
	for _, lead := range c.leads {
		valid := init.Valid(lead).UTC()
		for _, name := range c.names {
			phase := ensemble.SeasonAngle(valid)
			switch name {
			case config.LeadCondition:
				out = append(out, float32(float64(lead)/float64(c.scale)))
				continue
			case config.HourCondition:
				phase = 2 * math.Pi * (float64(valid.Hour()) + float64(valid.Minute())/60) / 24
			}
			sin, cos := math.Sincos(phase)
			out = append(out, float32(sin), float32(cos))
		}
	}
	return out
}

// AllocateConditions allocates the conditions of a batch of n samples, if there are any.
func (b *Batch) AllocateConditions(c Conditions, n int) {
	if each := c.PerLead(); each > 0 {
		b.conditionSpec, b.Conditions = c, make([]float32, n*each*len(c.leads))
	}
}

// fillConditions writes the conditions of sample i.
func (b *Batch) fillConditions(i int, init ensemble.Init) {
	if b.Conditions != nil {
		x := b.conditionSpec.values(init)
		copy(b.Conditions[i*len(x):], x)
	}
}
