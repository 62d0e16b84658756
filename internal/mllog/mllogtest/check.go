package mllogtest

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/mllog"
)

// Types of events.
const (
	point = "POINT_IN_TIME"
	start = "INTERVAL_START"
	end   = "INTERVAL_END"
)

// Keys that a log must have exactly once, and at least once.
var (
	requiredOnce = []string{"submission_benchmark", "submission_org", "submission_platform", "submission_division", "submission_status",
		"init_stop", mllog.RunStart, mllog.RunStop, "seed", "global_batch_size", "gradient_accumulation_frequency", "train_samples", "eval_samples", "opt_name", "opt_base_learning_rate", mllog.Target}
	requiredAtLeastOnce = []string{"cache_clear", "init_start", "epoch_start", "epoch_stop", "eval_start", "eval_stop", mllog.EvalAccuracy}
)

// runIntervals lists the intervals within a run.
var runIntervals = []string{"staging", "epoch", "eval"}

// Violations returns all violations of the rules:
//
//   - every event has the type of its key: _start starts an interval, _stop ends it, all others are points in time;
//   - times never decrease;
//   - keys that are required exactly once, and at least once;
//   - the initialisation ends before the run starts, and no event follows the end of the run;
//   - staging, epochs and evaluations are within the run and do not overlap with others of their kind; epochs and
//     evaluations have an epoch number, which increases by one per epoch;
//   - every evaluation has one accuracy, for the epoch that ended last;
//   - the run ends with a status, success at the first accuracy at or below the target (the quality is a loss), and
//     only then.
func Violations(events []mllog.Event) (faults []error) {
	add := func(i int, format string, a ...any) {
		faults = append(faults, fmt.Errorf("event %d, %s: %s", i+1, events[i].Key, fmt.Sprintf(format, a...)))
	}
	counts := map[string]int{}
	open := map[string]bool{}
	var last int64
	var epoch, evaluated float64
	target, known := 0.0, false
	reached := false
	for i, e := range events {
		counts[e.Key]++
		if e.TimeMS < last {
			add(i, "its time is before that of the previous event")
		}
		last = e.TimeMS
		name, kind := interval(e.Key)
		if e.Type != kind {
			add(i, "it is %s, want %s", e.Type, kind)
		}
		if e.Metadata == nil {
			add(i, "it has no metadata")
		}
		if counts[mllog.RunStop] > 0 && e.Key != mllog.RunStop {
			add(i, "it is after the end of the run")
		}
		switch e.Key {
		case "init_stop":
			if counts["init_start"] == 0 {
				add(i, "there is no init_start before it")
			}
		case mllog.RunStart:
			if counts["init_stop"] == 0 {
				add(i, "the initialisation has not ended")
			}
		case mllog.Target:
			target, known = e.Value.(float64)
		case mllog.EvalAccuracy:
			v, ok := e.Value.(float64)
			if !ok || !open["eval"] || e.Metadata[mllog.EpochNum] != epoch {
				add(i, "it is not a number within the evaluation of epoch %g", epoch)
			}
			if evaluated = epoch; reached {
				add(i, "the target was reached before")
			}
			reached = ok && known && v <= target
		case mllog.RunStop:
			if s := e.Metadata["status"]; s != mllog.Success && s != mllog.Aborted || (s == mllog.Success) != reached {
				add(i, "its status is %v, but target reached is %v", s, reached)
			}
		}
		if !slices.Contains(runIntervals, name) {
			continue
		}
		if counts[mllog.RunStart] == 0 {
			add(i, "the run has not started")
		}
		if n, ok := e.Metadata[mllog.EpochNum].(float64); name != "staging" && !ok {
			add(i, "it has no epoch number")
		} else if e.Key == "epoch_start" {
			if epoch++; n != epoch {
				add(i, "it is epoch %g, want %g", n, epoch)
			}
		} else if name != "staging" && n != epoch {
			add(i, "it is of epoch %g, want %g", n, epoch)
		}
		if begins := kind == start; begins == open[name] {
			add(i, "the previous one has not ended, or none has started")
		} else if open[name] = begins; e.Key == "eval_stop" && evaluated != epoch {
			add(i, "it has no accuracy")
		}
	}
	for name, is := range open {
		if is {
			faults = append(faults, fmt.Errorf("%s has not ended", name))
		}
	}
	for _, key := range requiredOnce {
		if counts[key] != 1 {
			faults = append(faults, fmt.Errorf("%s occurs %d times, want once", key, counts[key]))
		}
	}
	for _, key := range requiredAtLeastOnce {
		if counts[key] == 0 {
			faults = append(faults, fmt.Errorf("%s is missing", key))
		}
	}
	return faults
}

// interval returns the name of the interval of a key, and the type of its event.
func interval(key string) (name, kind string) {
	for suffix, kind := range map[string]string{"_start": start, "_stop": end} {
		if n := len(key) - len(suffix); n > 0 && key[n:] == suffix {
			return key[:n], kind
		}
	}
	return "", point
}
