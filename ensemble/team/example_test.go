package team_test

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Two ranks process three tasks, of which the first has the cost of three others; every rank gets all results in order.
func ExampleDistribute() {
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		teams, err := team.SplitRanks(c, "")
		if err != nil {
			return err
		}
		return team.Distribute(context.Background(), teams, team.Tasks{Costs: []int64{3, 1, 1}, PerExchange: 2},
			func(i int) (string, error) { return fmt.Sprintf("task %d by rank %d", i, c.Rank()), nil },
			func(i int, result string) error {
				if c.Rank() == 0 {
					fmt.Println(result)
				}
				return nil
			})
	})
	fmt.Println(err)
	// Output:
	// task 0 by rank 0
	// task 1 by rank 1
	// task 2 by rank 1
	// <nil>
}
