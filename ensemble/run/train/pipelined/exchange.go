package pipelined

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// exchange sends updated parameters from the rank that owns them to the others that hold a copy: those of other pipes, of stages
// that share them, and of the mesh of a stage.
//
// Cost: a message from each owner to each holder with all its parameters; none with one pipe, one rank for each stage, and stages
// without shared parameters.
type exchange struct {
	c        *comm.Comm
	sent     [][][2]int // by rank: ranges of the parameters that this rank sends there
	received [][][2]int // by rank: ranges that come from there
}

// exchangeTag is the only tag of the group.
const exchangeTag = 0

// newExchange prepares the exchange of chunks, given the rank that owns each, and the ranks that hold it.
//
// Errors: those of splitting the group.
func newExchange(c *comm.Comm, chunks []optim.Chunk, owners []int, holders [][]int) (*exchange, error) {
	c, err := c.Split(0, c.Rank())
	if err != nil {
		return nil, err
	}
	x := &exchange{c: c, sent: make([][][2]int, c.Size()), received: make([][][2]int, c.Size())}
	for i, p := range chunks {
		owner := owners[i]
		for _, rank := range holders[i] {
			switch {
			case rank == owner:
			case c.Rank() == owner:
				x.sent[rank] = append(x.sent[rank], [2]int{p.Lo, p.Hi})
			case c.Rank() == rank:
				x.received[owner] = append(x.received[owner], [2]int{p.Lo, p.Hi})
			}
		}
	}
	return x, nil
}

// run exchanges x, which has the layout of the parameters.
//
// Errors: lost ranks.
func (x *exchange) run(params []float32) error {
	var requests []comm.Request
	arrived := make([][]float32, len(x.received))
	for rank, spans := range x.received {
		if n := length(spans); n > 0 {
			arrived[rank] = make([]float32, n)
			requests = append(requests, x.c.Recv(rank, exchangeTag, arrived[rank]))
		}
	}
	for rank, spans := range x.sent {
		if len(spans) == 0 {
			continue
		}
		var message []float32
		for _, s := range spans {
			message = append(message, params[s[0]:s[1]]...)
		}
		requests = append(requests, x.c.Send(rank, exchangeTag, message))
	}
	if err := comm.WaitAll(requests...); err != nil {
		return fmt.Errorf("parameters of other copies of a stage: %w", err)
	}
	for rank, spans := range x.received {
		for _, s := range spans {
			arrived[rank] = arrived[rank][copy(params[s[0]:s[1]], arrived[rank]):]
		}
	}
	return nil
}

// length is the number of values in ranges.
func length(spans [][2]int) (n int) {
	for _, s := range spans {
		n += s[1] - s[0]
	}
	return n
}

// ranks are the ranks of a pipeline for the optimiser: each owns the parameters whose gradients it sums.
type ranks struct {
	*spatial.Shards
	exchange *exchange
}

var _ optim.Ranks = ranks{}

// AllGather gives parameters to the ranks that hold a copy; Network.AllGather gives them to all.
func (r ranks) AllGather(x []float32) error { return r.exchange.run(x) }

// Ranks returns the ranks of an optimiser for the store of Compile.
func (n *Network) Ranks() optim.Ranks { return ranks{n.shards, n.exchange} }
