package comm_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

func ExampleAllReduce() {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		x := []float64{1, float64(c.Rank())}
		if err := comm.AllReduce(c, x, comm.Auto); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// [4 6]
	// <nil>
}

func ExampleReduceScatterV() {
	err := comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		x := []float64{1, 2, 3, 4, 5}
		own, err := comm.ReduceScatterV(c, x, comm.SplitEvenly(len(x), c.Size()), comm.Ring)
		if err == nil && c.Rank() == 2 {
			fmt.Println("rank 2 has", own)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// rank 2 has [12 15]
	// <nil>
}

func ExampleComm_Split() {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		half, err := c.Split(c.Rank()%2, c.Rank())
		if err != nil {
			return err
		}
		all, err := comm.AllGather(half, []int64{int64(c.Rank())})
		if err == nil && c.Rank() == 3 {
			fmt.Println("rank 3 is rank", half.Rank(), "of", all)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// rank 3 is rank 1 of [1 3]
	// <nil>
}

// A deadlock is an error that lists what each rank waits for.
func ExampleRun() {
	fmt.Println(comm.Run(2, comm.Replay(1), func(c *comm.Comm) error {
		return c.Recv(1-c.Rank(), 7, make([]byte, 1)).Wait()
	}))
	// Output: replay of seed 1: rank 0: deadlock: rank 0 waits for a message from rank 1, tag 7, rank 1 waits for a message from rank 0, tag 7
}
