package groups

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// arrivalsEvent is the kind of the events that list late contributions of a run of steps, up to the step of the event.
// Their values have a row for each group and a column for each step. Runs without late contributions have none.
const arrivalsEvent = "arrivals"

// Values of these events.
const (
	agesValue    = "ages"    // age of the contribution to the sum of a step, in steps; 0: on time
	aheadValue   = "ahead"   // number of sums of later steps that were there when the step ended
	skippedValue = "skipped" // 1: the group left the step out
)

// WriteArrivals writes what depended on time in the last run of steps to the events of the training, if anything did.
// step and epoch are those of the event. All ranks call it.
//
// Errors: lost ranks; those of writing.
func (e *Exchange) WriteArrivals(to *rundir.Events, step uint64, epoch int) error {
	if !e.groups.IsLeader() {
		return nil
	}
	own := e.system.arrivals()
	if own.Ages == nil {
		return nil
	}
	all, err := team.AllGather(e.groups.Across, own)
	if err != nil {
		return err
	}
	var values [3][][]int
	some := false
	for _, of := range all {
		for i, row := range [][]int{of.Ages, of.Ahead, of.Skipped} {
			values[i] = append(values[i], row)
			some = some || slices.ContainsFunc(row, func(n int) bool { return n != 0 })
		}
	}
	if !some {
		return nil
	}
	return to.Write(arrivalsEvent, step, epoch, rundir.Value{Name: agesValue, Value: values[0]}, rundir.Value{Name: aheadValue, Value: values[1]},
		rundir.Value{Name: skippedValue, Value: values[2]})
}

// ReadArrivals returns the log of a group in the training of a run directory, for a number of steps after the first ones.
//
// Errors: those of reading events; exit 65 if they are of another number of groups.
func ReadArrivals(dir string, g *team.SampleGroups, first uint64, steps int) (*partial.Log, error) {
	events, err := rundir.ReadEvents(dir)
	if err != nil {
		return nil, err
	}
	l := &partial.Log{}
	for i := range steps {
		l.Versions, l.Applied = append(l.Versions, i+1), append(l.Applied, i+1)
	}
	for _, e := range events {
		if e.Kind != arrivalsEvent {
			continue
		}
		ages, ok := rowOf(e, agesValue, g)
		ahead, ok2 := rowOf(e, aheadValue, g)
		skipped, ok3 := rowOf(e, skippedValue, g)
		if !ok || !ok2 || !ok3 || len(ages) != len(ahead) || len(ages) != len(skipped) {
			return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("late contributions of step %d are not those of %d groups", e.Step, g.Count()), At: dir,
				Why: "they belong to a training on another mesh", Fix: "set train.exchange.replay to a training on this mesh"}
		}
		for i := range ages {
			at := int(e.Step) - len(ages) + i - int(first)
			if at < 0 || at >= steps {
				continue
			}
			l.Versions[at] -= ages[i]
			l.Applied[at] += ahead[i]
			if skipped[i] != 0 {
				l.Skipped = append(l.Skipped, at)
			}
		}
	}
	return l, nil
}

// rowOf returns the numbers of this rank's group in a value of an event.
func rowOf(e rundir.Event, name string, g *team.SampleGroups) (row []int, ok bool) {
	rows, ok := e.Values[name].([]any)
	if !ok || len(rows) != g.Count() {
		return nil, false
	}
	numbers, ok := rows[g.Index()].([]any)
	for _, x := range numbers {
		n, isNumber := x.(float64)
		row, ok = append(row, int(n)), ok && isNumber
	}
	return row, ok
}
