package team

import "github.com/ensemble-weather/ensemble/spatial/comm"

// Total is a number of all ranks: its sum, in the order of ranks, and the smallest and largest with the first rank that has
// it.
type Total struct {
	Sum     float64 `json:"-"`
	Min     float64 `json:"min"`
	MinRank int     `json:"min_rank"`
	Max     float64 `json:"max"`
	MaxRank int     `json:"max_rank"`
}

// Totals returns the totals of numbers that every rank has counted, in the same order. All ranks call it.
//
// Errors: lost ranks.
func (t *Team) Totals(own []float64) ([]Total, error) {
	all, err := own, error(nil)
	if t != nil {
		if all, err = comm.AllGather(t.Comm, own); err != nil {
			return nil, err
		}
	}
	out := make([]Total, len(own))
	for i := range own {
		x := Total{Min: all[i], Max: all[i]}
		for r := range t.Size() {
			v := all[r*len(own)+i]
			x.Sum += v
			if v < x.Min {
				x.Min, x.MinRank = v, r
			}
			if v > x.Max {
				x.Max, x.MaxRank = v, r
			}
		}
		out[i] = x
	}
	return out, nil
}
