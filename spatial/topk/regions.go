package topk

import (
	"slices"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// findRegions finds the P+1 boundaries of the regions, which are equal on all ranks: the
// means over ranks of boundaries at which each rank's selected entries split evenly. A
// rank with fewer than P entries proposes regions of equal length.
//
// Source: Li and Hoefler 2022, arXiv:2201.07598 (split and reduce).
func (r *Reducer) findRegions(c *comm.Comm, selected []int32) error {
	p := c.Size()
	bounds := make([]int64, p+1)
	for i := 1; i < p; i++ {
		if len(selected) >= p {
			bounds[i] = int64(selected[i*len(selected)/p])
		} else {
			bounds[i] = int64(r.Len()) * int64(i) / int64(p)
		}
	}
	// A sum of ascending proposals is ascending, and so are its quotients.
	if err := comm.AllReduce(c, bounds[1:p], comm.Auto); err != nil {
		return err
	}
	for i := 1; i < p; i++ {
		bounds[i] /= int64(p)
	}
	bounds[p] = int64(r.Len())
	r.state.Bounds = bounds
	return nil
}

// inRegion returns the part of ascending indices that lies in the region of a rank.
func (r *Reducer) inRegion(index []int32, rank int) []int32 {
	lo, _ := slices.BinarySearch(index, int32(r.state.Bounds[rank]))
	index = index[lo:]
	if rank+2 == len(r.state.Bounds) { // the end, n, may be no int32
		return index
	}
	hi, _ := slices.BinarySearch(index, int32(r.state.Bounds[rank+1]))
	return index[:hi]
}
