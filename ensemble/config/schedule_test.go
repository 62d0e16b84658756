package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestSchedule: cycles of a day, with leading zeros, and the time at which each is expected.
func TestSchedule(t *testing.T) {
	c, err := LoadPredict(Sources{Set: []string{"serve.schedule.cycles=[00, 06, 08, 18]", "serve.schedule.expected=init+6h40m"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckService(); err != nil || fmt.Sprint(c.Serve.Schedule.Cycles) != "[0 6 8 18]" {
		t.Errorf("%v: %v", c.Serve.Schedule, err)
	}
	begin := time.Date(2026, 3, 28, 18, 0, 0, 0, time.UTC)
	var got []string
	for _, i := range c.Serve.Schedule.Inits(begin, begin.Add(31*time.Hour)) {
		at, ok := c.Serve.Schedule.ExpectedBy(i)
		got = append(got, fmt.Sprint(i.Format("0215"), at.Format("-021504"), ok))
	}
	if want := "3000-300640true 2918-300040true 2908-291440true 2906-291240true 2900-290640true 2818-290040true"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	if at, ok := c.Serve.Schedule.ExpectedBy(begin.Add(time.Hour)); ok {
		t.Errorf("19 h is expected at %s", at)
	}
	for at, want := range map[time.Time]string{begin: "", begin.Add(-10*time.Hour + time.Minute): "08:01 UTC is not in serve.schedule.cycles [00, 06, 08, 18]"} {
		if got := c.Serve.Schedule.Contradicts(at); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	if got := (Schedule{}).Contradicts(begin); got != "" {
		t.Errorf("without a schedule: %q", got)
	}
	for _, set := range [][]string{{"serve.schedule.cycles=[00]"}, {"serve.schedule.expected=init+1h"}, {"serve.schedule.cycles=[0]", "serve.schedule.expected=+40m"}} {
		c, err := LoadPredict(Sources{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckService(); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "serve.schedule") {
			t.Errorf("%q: %v", set, err)
		}
	}
	for _, hours := range []string{"[24]", "[-1]", "[noon]"} {
		if _, err := LoadPredict(Sources{Set: []string{"serve.schedule.cycles=" + hours}}); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v", hours, err)
		}
	}
}
