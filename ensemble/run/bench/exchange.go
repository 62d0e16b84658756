package bench

import (
	"context"
	"errors"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Rounds of the measurement of exchanges between computing ranks.
const (
	exchangeBlocks = 10 // with exchanges and without, in turn
	exchangeRounds = 12 // of a block
)

// partOf returns a case like k, but so small that its step takes about the given time, if one of k takes step: one sample of
// fewer whole coarsest cells.
func (k Case) partOf(step, about time.Duration) Case {
	took := step / time.Duration(k.Batch)
	k.Batch = 1
	for _, side := range []*int{&k.Crop.Height, &k.Crop.Width} {
		for took > about && *side%(2*coarsestCell) == 0 {
			*side /= 2
			took /= 2
		}
	}
	return k
}

// measureExchange returns the time that an exchange of halos adds to a step in which ranks compute for an interval from one exchange
// to the next: each starts its messages to the ranks before and after it, computes, and waits, as convolutions do. The same
// computation without messages is subtracted. It is the time in which ranks wait for others that are behind, because kernels do
// not take the same time on all ranks in each round, or because ranks take turns on a processor. What they compute are steps of
// a small part of the case: kernels wait for memory that ranks share.
func (k Case) measureExchange(ctx context.Context, c *comm.Comm, step, interval time.Duration) (wait time.Duration, err error) {
	small, err := k.partOf(step, interval).compile(true, k.Options(false))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, small.Close()) }()
	n := c.Size()
	partners := []int{(c.Rank() + n - 1) % n, (c.Rank() + 1) % n}
	block := func(partners []int) (time.Duration, error) {
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
			if err := small.Run(ctx); err != nil {
				return 0, err
			}
			if err := comm.WaitAll(all...); err != nil {
				return 0, err
			}
		}
		err := comm.Barrier(c)
		return time.Since(began), err
	}
	if _, err := block(nil); err != nil { // warm-up
		return 0, err
	}
	var more time.Duration
	for range exchangeBlocks {
		alone, err := block(nil)
		if err != nil {
			return 0, err
		}
		together, err := block(partners)
		if err != nil {
			return 0, err
		}
		more += together - alone
	}
	return max(0, more) / (exchangeBlocks * exchangeRounds), nil
}
