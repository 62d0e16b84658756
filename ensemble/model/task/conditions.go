package task

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// Conditions are what a batch is told of the leads of rows.
type Conditions struct {
	names []string
	leads []ensemble.Lead
	scale ensemble.Lead // that counts as 1
}

// NewConditions are those of some names, in the order of these, of leads of a task.
func (k *Task) NewConditions(names []string, leads []ensemble.Lead) Conditions {
	return Conditions{names, leads, max(1, k.trainedHorizon, slices.Max(k.Features.Axes.Leads))}
}

// PerLead is how many numbers there are of a lead.
func (c Conditions) PerLead() (n int) {
	for _, name := range c.names {
		if n += 2; name == config.LeadCondition {
			n--
		}
	}
	return n
}

// values are the conditions of a start, lead by lead: the lead, and sine and cosine of the phases of the year
// and of the day at its valid time.
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

// AllocateConditions gives a batch of n samples room for conditions, if there are some.
func (b *Batch) AllocateConditions(c Conditions, n int) {
	if each := c.PerLead(); each > 0 {
		b.conditionSpec, b.Conditions = c, make([]float32, n*each*len(c.leads))
	}
}

// fillConditions writes those of sample i.
func (b *Batch) fillConditions(i int, init ensemble.Init) {
	if b.Conditions != nil {
		x := b.conditionSpec.values(init)
		copy(b.Conditions[i*len(x):], x)
	}
}
