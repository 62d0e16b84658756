package quality

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/mllog"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// The processor time of a log is the sum over all ranks, of which rank 0 writes; after a failure, when ranks exchange nothing
// more, it is absent.
func TestProcessorTimeOfRanks(t *testing.T) {
	for _, c := range []struct {
		what string
		loss float64
		end  error // of the training
		want float64
	}{{"reached", 0.1, nil, 6}, {"aborted", 2, nil, 6}, {"failed", 2, errors.New("a rank was lost"), math.NaN()}} {
		log := filepath.Join(t.TempDir(), "mllog.txt")
		if err := comm.Run(3, comm.Parallel, func(rank *comm.Comm) error {
			o := Options{Target: 0.5}
			if rank.Rank() == 0 {
				o.Log = log
			}
			clock, err := NewClock(o, team.New(rank))
			if err != nil {
				return err
			}
			clock.processor = func() time.Duration {
				return clock.processorStart + time.Duration(rank.Rank()+1)*time.Second
			}
			clock.Point(mllog.Target, o.Target, nil)
			if err := clock.BeginEpoch(); err != nil {
				return err
			}
			clock.BeginValidation()
			if err := clock.Validated(c.loss, 7); err != nil {
				return err
			}
			return clock.Close(c.end)
		}); err != nil {
			t.Fatal(err)
		}
		got, err := Read(log)
		if err != nil || got.Reached != (c.what == "reached") || fmt.Sprint(got.Processor) != fmt.Sprint(c.want) || got.Steps != 7 {
			t.Errorf("%s: %+v, %v, want %v processor seconds", c.what, got, err, c.want)
		}
	}
}
