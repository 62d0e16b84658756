package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Averaging is the time over which weights are averaged: a decay for each step, or a time after which the
// share of old weights in the average has decreased to 1/e. The zero value averages nothing.
type Averaging struct {
	Decay         float64 // 0 to 1
	Epochs, Steps float64
}

// IsEnabled reports whether weights are averaged.
func (a Averaging) IsEnabled() bool { return a != Averaging{} }

// Length is the time in steps; 1/(1−d) for a decay d.
func (a Averaging) Length(stepsPerEpoch int) float64 {
	if a.Steps+a.Epochs > 0 {
		return a.Steps + a.Epochs*float64(stepsPerEpoch)
	}
	return 1 / (1 - a.Decay)
}

// DecayOf returns the decay for each step, e^(−1/τ) for a time of τ steps.
func (a Averaging) DecayOf(stepsPerEpoch int) float64 {
	if a.Steps+a.Epochs > 0 {
		return math.Exp(-1 / a.Length(stepsPerEpoch))
	}
	return a.Decay
}

// averagingText matches a number and an optional unit.
var averagingText = regexp.MustCompile(`^([0-9]*\.?[0-9]+(?:[eE]-?[0-9]+)?)(?: ?(epochs?|steps?))?$`)

// ParseAveraging parses 0.999, 10 epochs and 500 steps; 0 means no average.
//
// Errors: a decay of 1 or more, which may be meant as a time; a time of 0; any other text.
func ParseAveraging(s string) (Averaging, error) {
	m := averagingText.FindStringSubmatch(s)
	if m == nil {
		return Averaging{}, schema.ErrKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	switch unit := m[2]; {
	case err != nil:
		return Averaging{}, schema.ErrKind
	case unit == "" && v >= 1:
		return Averaging{}, fmt.Errorf("%s is no decay, which is less than 1; for a time write %s epochs or %s steps", s, s, s)
	case unit == "":
		return Averaging{Decay: v}, nil
	case v == 0:
		return Averaging{}, fmt.Errorf("%s is no time to average over; 0 means no average", s)
	case unit[0] == 'e':
		return Averaging{Epochs: v}, nil
	}
	return Averaging{Steps: v}, nil
}

// String formats a for ParseAveraging.
func (a Averaging) String() string {
	switch {
	case a.Epochs > 0:
		return strconv.FormatFloat(a.Epochs, 'f', -1, 64) + " epochs"
	case a.Steps > 0:
		return strconv.FormatFloat(a.Steps, 'f', -1, 64) + " steps"
	}
	return strconv.FormatFloat(a.Decay, 'g', -1, 64)
}
