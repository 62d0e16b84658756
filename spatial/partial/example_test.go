package partial_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// All ranks apply the same sums. With a period of 1 every step waits for all ranks.
func ExampleEager() {
	err := comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		e, err := partial.NewEager(c, 1, partial.EagerOptions{Period: 1})
		if err != nil {
			return err
		}
		if err := e.Start(2); err != nil {
			return err
		}
		w := []float32{0}
		for range 2 {
			updates, err := e.Step([]float32{w[0] - float32(c.Rank())})
			if err != nil {
				return err
			}
			for _, u := range updates {
				w[0] -= 0.5 / 3 * u.Sum[0]
				if c.Rank() == 0 {
					fmt.Printf("step %d: %d of 3 gradients, w = %.2f\n", u.Step, u.Gradients, w[0])
				}
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// step 0: 3 of 3 gradients, w = 0.50
	// step 1: 3 of 3 gradients, w = 0.75
}

// After the last step, which is global, all models are equal.
func ExampleWAGMA() {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		w := []float32{0}
		a, err := partial.NewWAGMA(c, w, partial.WAGMAOptions{GroupSize: 2, Period: 10})
		if err != nil {
			return err
		}
		if err := a.Start(1); err != nil {
			return err
		}
		w[0] = float32(c.Rank()) // local update
		average, err := a.Step(w)
		if err == nil && c.Rank() == 0 {
			fmt.Println(average.OnTime, w[0])
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 4 1.5
}

// Models are averaged every two steps.
func ExampleLocal() {
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		w := []float32{0}
		l, err := partial.NewLocal(c, w, partial.LocalOptions{Steps: 2, Rate: 1})
		if err != nil {
			return err
		}
		for step := range 4 {
			w[0] += float32(1 + 2*c.Rank())
			outer, err := l.Step(w)
			if err != nil {
				return err
			}
			if outer && c.Rank() == 0 {
				fmt.Println("step", step, w[0])
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// step 1 4
	// step 3 8
}
