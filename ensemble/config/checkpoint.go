package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// CheckpointInterval is the training between two checkpoints: the part that ends first. Parts of 0 do not count; one is
// positive.
type CheckpointInterval struct {
	Time   time.Duration
	Steps  int // optimiser steps
	Epochs int

	IsAuto bool // Epochs counts once training was MinCheckpointRatio times as long as the last checkpoint took
}

// MinCheckpointRatio is the least ratio of the time of training to that of its checkpoints, with automatic intervals of epochs.
const MinCheckpointRatio = 100

// autoInterval is the text of autoCheckpoints.
const autoInterval = "auto"

var autoCheckpoints = CheckpointInterval{Time: 10 * time.Minute, Epochs: 1, IsAuto: true}

// checkpointCount matches a number of steps or epochs.
var checkpointCount = regexp.MustCompile(`^([0-9]+) ?(epochs?|steps?)$`)

// checkpointIntervalPattern is the pattern of intervals in JSON Schema.
const checkpointIntervalPattern = `^(auto|[0-9][^ ]* ?[a-z]*( or [0-9][^ ]* ?[a-z]*)*)$`

// ParseCheckpointInterval parses auto, 500 steps, 10 min, 1 epoch, and several intervals such as 10 min or 1 epoch.
//
// Errors: a number without unit; a part of 0 or given twice; any other text.
func ParseCheckpointInterval(s string) (c CheckpointInterval, err error) {
	if s == autoInterval {
		return autoCheckpoints, nil
	}
	if plainInt.MatchString(s) {
		return c, instead(fmt.Sprintf("missing unit: write %s epochs, %s steps or %s min", s, s, s), s+" epochs")
	}
	for part := range strings.SplitSeq(s, " or ") {
		if err := c.add(part); err != nil {
			return CheckpointInterval{}, err
		}
	}
	return c, nil
}

// add parses a part of an interval.
func (c *CheckpointInterval) add(part string) error {
	var isZero, isSecond bool
	if m := checkpointCount.FindStringSubmatch(part); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return schema.ErrKind
		}
		to := &c.Steps
		if m[2][0] == 'e' {
			to = &c.Epochs
		}
		isZero, isSecond, *to = n == 0, *to > 0, n
	} else {
		d, err := ParseDuration(strings.Replace(part, " ", "", 1))
		if err != nil {
			return schema.ErrKind
		}
		isZero, isSecond, c.Time = d == 0, c.Time > 0, d
	}
	switch {
	case isZero:
		return fmt.Errorf("%s is no interval", part)
	case isSecond:
		return errors.New("it has two values of one unit")
	}
	return nil
}

// String formats c for ParseCheckpointInterval.
func (c CheckpointInterval) String() string {
	if c == autoCheckpoints {
		return autoInterval
	}
	var parts []string
	if c.Time > 0 {
		parts = append(parts, formatDuration(c.Time))
	}
	for _, p := range []struct {
		n    int
		unit string
	}{{c.Steps, "step"}, {c.Epochs, "epoch"}} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.unit)
		case p.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", p.n, p.unit))
		}
	}
	return strings.Join(parts, " or ")
}
