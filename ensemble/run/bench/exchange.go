package bench

import (
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Numbers and sizes of the measurement of exchanges between computing ranks.
const (
	exchangeRounds    = 200
	exchangeLength    = 16 << 10               // values that a pass of the computation adds
	exchangeCalibrate = 100 * time.Millisecond // in which passes are counted
)

// measureExchange returns the time that an exchange of halos adds to a step in which ranks compute for an interval from one exchange
// to the next: each starts its messages to the ranks before and after it, computes, and waits, as convolutions do. The same
// computation without messages is subtracted. It is the time in which ranks wait for others that are behind, because kernels do
// not take the same time on all ranks in each round, or because ranks take turns on a processor.
func measureExchange(c *comm.Comm, interval time.Duration) (time.Duration, error) {
	x := make([]float32, exchangeLength)
	var total float32 // is returned to no one: it keeps the additions
	pass := func() {
		for _, v := range x {
			total += v
		}
	}
	if err := comm.Barrier(c); err != nil {
		return 0, err
	}
	passes := 0
	for end := time.Now().Add(exchangeCalibrate); time.Now().Before(end); passes++ {
		pass()
	}
	each := []int64{int64(float64(passes) * interval.Seconds() / exchangeCalibrate.Seconds())}
	if err := comm.AllReduce(c, each, comm.Auto); err != nil {
		return 0, err
	}
	each[0] /= int64(c.Size()) // all ranks compute the same
	measure := func(partners []int) (time.Duration, error) {
		if err := comm.Barrier(c); err != nil {
			return 0, err
		}
		began := time.Now()
		for range exchangeRounds {
			var all []comm.Request
			for tag, r := range partners {
				all = append(all, c.Recv(r, tag, make([]float32, 1)))
			}
			for tag, r := range partners { // what goes to the rank after comes from the rank before
				all = append(all, c.Send(r, len(partners)-1-tag, make([]float32, 1)))
			}
			for range each[0] {
				pass()
			}
			if err := comm.WaitAll(all...); err != nil {
				return 0, err
			}
		}
		err := comm.Barrier(c)
		return time.Since(began), err
	}
	alone, err := measure(nil)
	if err != nil {
		return 0, err
	}
	n := c.Size()
	together, err := measure([]int{(c.Rank() + n - 1) % n, (c.Rank() + 1) % n})
	return max(0, together-alone) / exchangeRounds, err
}
