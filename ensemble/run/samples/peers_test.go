package samples

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Problems with the sources of samples are reported by all ranks.
func TestSourceWarnings(t *testing.T) {
	costs := InputCosts{Counts: loader.Counts{DiskError: errors.New("full"), PeerError: errors.New("rank 1: damaged reply")}}
	alone, err := costs.Warnings(nil)
	if err != nil || len(alone) != 2 || !strings.Contains(alone[1], "rank 1: damaged reply") {
		t.Errorf("%v: %q", err, alone)
	}
	err = comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		own := InputCosts{}
		if c.Rank() == 2 {
			own = costs
		}
		w, err := own.Warnings(team.New(c))
		if err == nil && (len(w) != 2 || slices.ContainsFunc(w, func(w string) bool { return !strings.HasPrefix(w, "rank 2: ") })) {
			err = fmt.Errorf("warnings %q", w)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
