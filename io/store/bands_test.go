package store

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Ranks that share the rows of a grid at multiples of the coarsest cell read at most 1.1/N of a
// sample, and headers are at most a thirtieth of it.
func TestSlabsOfRows(t *testing.T) {
	for _, c := range []struct {
		ny, nx, members, levels int
		storage                 Storage
		ranks, cell             int
	}{
		{32, 64, 10, 2, Float32, 2, 4}, {32, 64, 10, 2, Float32, 4, 4}, {32, 64, 10, 2, Int16, 2, 4},
		{352, 704, 10, 2, Float32, 4, 16}, {352, 704, 50, 11, Float32, 8, 8}, {721, 1440, 50, 2, Int16, 4, 8}, {181, 360, 10, 2, Float32, 2, 4},
	} {
		grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: c.ny, NX: c.nx}
		m := &Meta{Grid: grid, Storage: c.storage, Variables: make([]Variable, 5), Levels: make([]ensemble.Level, c.levels), Leads: make([]int64, 3), Members: make([]ensemble.Member, c.members),
			Analyses: Analyses{Variables: []string{"t", "gh"}, Leads: []int64{0}}, InitTimes: make([]time.Time, 4), BandRows: 1, ShardInits: 1}
		l, err := m.layout()
		if err != nil {
			t.Fatal(err)
		}
		m.BandRows = bandRows(grid, int64(l.fields)*l.fieldBytes(1), l.head)
		if l, err = m.layout(); err != nil {
			t.Fatal(err)
		}
		if l.bands > maxBands || l.head*30 > l.bandBytes(0) {
			t.Errorf("%+v: %d bands of %d bytes, headers of %d", c, l.bands, l.bandBytes(0), l.head)
		}
		cells := (c.ny + c.cell - 1) / c.cell
		for rank := range c.ranks {
			lo, hi := cells*rank/c.ranks*c.cell, min(cells*(rank+1)/c.ranks*c.cell, c.ny)
			bytes := int64(0)
			for b := lo / l.bandRows; b <= (hi-1)/l.bandRows; b++ {
				bytes += l.bandBytes(b)
			}
			whole := float64(l.fields) * float64(l.fieldBytes(c.ny))
			if share := float64(bytes) / whole; share > 1.1*float64(hi-lo)/float64(c.ny) {
				t.Errorf("%+v: rank %d reads %.4f of the fields for %d of %d rows, in bands of %d", c, rank, share, hi-lo, c.ny, l.bandRows)
			}
		}
	}
}
