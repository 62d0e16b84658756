package quality

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/mllog"
)

// Timing is the content of a log.
type Timing struct {
	Identity  string // hash of program version, configuration and inputs
	Threads   int
	Reached   bool    // the target loss was reached
	Seconds   float64 // from run_start to run_stop
	Staging   float64 // seconds until all input was read
	Processor float64 // processor seconds of all cores; NaN if unknown
	Epochs    int     // validated, over all networks, without those of pre-trainings
	Steps     uint64
	Loss      float64 // last validation loss
}

// Read reads a log.
//
// Errors: exit 66 if it is missing; 65 if it is damaged, has no end, or states a success that its losses do not show.
func Read(path string) (*Timing, error) {
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	defer f.Close()
	events, err := mllog.Read(f)
	t := &Timing{Processor: math.NaN()}
	if err == nil {
		t.Seconds, t.Reached, err = mllog.Seconds(events)
	}
	if err == nil {
		err = checkStatus(events, t.Reached)
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the log contains no complete run", At: path, Why: fmt.Sprint(err), Fix: "repeat the timed training with --overwrite always", Err: err}
	}
	var began int64
	for _, e := range events {
		number, _ := e.Value.(float64)
		switch e.Key {
		case identityKey:
			t.Identity, _ = e.Value.(string)
		case mllog.RunStart:
			began = e.TimeMS
		case stagingKey + "_stop":
			t.Staging = float64(e.TimeMS-began) / 1000
		case threadsKey:
			t.Threads = int(number)
		case mllog.EvalAccuracy:
			t.Loss = number
			t.Epochs++
		case mllog.RunStop:
			if s, ok := e.Metadata[processorKey].(float64); ok {
				t.Processor = s
			}
			if n, ok := e.Metadata[stepsKey].(float64); ok {
				t.Steps = uint64(n)
			}
		}
	}
	return t, nil
}

// checkStatus compares the status at the end of a log with its losses: success means that the last one is the first at or
// below the target.
func checkStatus(events []mllog.Event, reached bool) error {
	var losses []float64
	target := math.NaN()
	for _, e := range events {
		number, ok := e.Value.(float64)
		switch {
		case !ok:
		case e.Key == mllog.Target:
			target = number
		case e.Key == mllog.EvalAccuracy:
			losses = append(losses, number)
		}
	}
	first := slices.IndexFunc(losses, func(loss float64) bool { return loss <= target })
	if shown := first >= 0 && first == len(losses)-1; shown != reached {
		return fmt.Errorf("its end states that the target loss %g was reached: %t; its %d losses show: %t", target, reached, len(losses), shown)
	}
	return nil
}
