package comm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Groups of Group behave like those of Split, disjoint or nested, and their
// creation sends no messages.
func TestGroup(t *testing.T) {
	err := comm.Run(6, comm.Replay(1), func(c *comm.Comm) error {
		before := c.Traffic()
		row := c.Rank() / 3
		rows, err := c.Group([]int{3*row + 2, 3 * row, 3*row + 1})
		if err != nil {
			return err
		}
		var ends []int
		if c.Rank() == 0 || c.Rank() == 5 {
			ends = []int{0, 5}
		}
		pair, err := c.Group(ends)
		if err != nil {
			return err
		}
		within, err := rows.Group([]int{rows.Rank()})
		if err != nil {
			return err
		}
		if sent := c.Traffic().Sub(before); sent != (comm.Traffic{}) {
			return fmt.Errorf("%v were sent", sent)
		}
		if (pair == nil) != (ends == nil) || within.WorldRank(0) != c.Rank() {
			return fmt.Errorf("rank %d: groups %v and %v", c.Rank(), pair, within)
		}
		later, err := c.Split(c.Rank()%2, 0)
		if err != nil {
			return err
		}
		x := [][]int64{{int64(c.Rank())}, {int64(c.Rank())}, {int64(c.Rank())}}
		if err := comm.AllReduce(rows, x[0], comm.Auto); err != nil {
			return err
		}
		if err := comm.AllReduce(later, x[1], comm.Auto); err != nil {
			return err
		}
		if pair != nil {
			if err := comm.AllReduce(pair, x[2], comm.Auto); err != nil {
				return err
			}
		}
		all, err := comm.AllGather(rows, []int64{int64(c.Rank())})
		if err != nil {
			return err
		}
		want := []int64{int64(3*row + 2), int64(3 * row), int64(3*row + 1)}
		if sum := int64(3 + 9*row); x[0][0] != sum || x[1][0] != int64(6+3*(c.Rank()%2)) || pair != nil && x[2][0] != 5 || !slices.Equal(all, want) {
			return fmt.Errorf("rank %d: sums %v, gathered %v", c.Rank(), x, all)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Invalid lists of ranks are refused.
func TestWrongGroups(t *testing.T) {
	for _, ranks := range [][]int{{1}, {0, 0}, {0, 2}, {-1, 0}} {
		err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
			if c.Rank() > 0 {
				return nil
			}
			if _, err := c.Group(ranks); err == nil {
				return fmt.Errorf("the group %v was made", ranks)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
