package quality

import (
	"fmt"
	"math"
	"os"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mllog"
)

// Timing is what a log says.
type Timing struct {
	Identity  string // of the run: program, configuration, inputs
	Threads   int
	Reached   bool
	Seconds   float64 // from the start to the end
	Staging   float64 // of them, until all was read
	Processor float64 // seconds of all its cores meanwhile
	Epochs    int     // that were validated, over all networks
	Steps     uint64
	Loss      float64 // the last
}

// Read reads a log.
//
// Errors: exit 66 if it is not there, 65 if it is damaged or has no end.
func Read(path string) (*Timing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	defer f.Close()
	events, err := mllog.Read(f)
	t := &Timing{Processor: math.NaN()}
	if err == nil {
		t.Seconds, t.Reached, err = mllog.Seconds(events)
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the log has no time", At: path, Why: fmt.Sprint(err), Fix: "time the training again with --overwrite always", Err: err}
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
