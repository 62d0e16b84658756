package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// join finds the groups of a rank: of its worker's ranks with the same samples, and of data ranks.
//
// Errors: those of spatial.NewBoundary, and too many groups in a job.
func (w *Worker) join(c *comm.Comm, m spatial.Mesh) (err error) {
	if w.mesh, err = joinGroup(c, m, w.whole); err != nil || !m.HasDataRanks() {
		return err
	}
	w.data, err = along(c, m, spatial.Mesh{{Name: spatial.DataAxis}})
	return err
}

// dataRanks is the number of data ranks.
func (w *Worker) dataRanks() int {
	if w.data == nil {
		return 1
	}
	return w.data.Size()
}

// firstPiece is the number of this data rank's first piece among those of all data ranks.
func (w *Worker) firstPiece() int {
	if w.data == nil {
		return 0
	}
	return w.data.Rank() * w.s.Pieces()
}

// sumData replaces values, of the same lengths on all data ranks, by their sums over these, in one message. All get the same bits.
//
// Cost: an all-reduce of all values, once a step, where a plan for the mesh with its axis data takes one for each piece.
// Errors: those of messages.
func sumData[T comm.Summand](data *comm.Comm, values [][]T) error {
	x := slices.Concat(values...)
	if data == nil || len(x) == 0 {
		return nil
	}
	if err := comm.AllReduce(data, x, comm.Auto); err != nil {
		return fmt.Errorf("sums of data ranks: %w", err)
	}
	for _, v := range values {
		x = x[copy(v, x):]
	}
	return nil
}
