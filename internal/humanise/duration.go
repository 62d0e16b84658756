package humanise

import (
	"fmt"
	"strings"
	"time"
)

// Duration formats a duration for people: whole days from 48 h on, else hours and minutes, below one hour
// minutes and seconds.
func Duration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24+0.5))
	case d >= time.Hour:
		return trimZero(d.Round(time.Minute).String())
	}
	return trimZero(d.Round(time.Second).String())
}

// trimZero removes trailing zero seconds and minutes: 3h0m0s becomes 3h.
func trimZero(s string) string {
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}
