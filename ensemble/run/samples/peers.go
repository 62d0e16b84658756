package samples

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// peerAddress is the address of a rank for exchanging samples, and its slab.
type peerAddress struct {
	Peer loader.Peer
	Slab string
}

// ConnectPeers connects ranks that hold the same slab of different samples, so that they exchange samples from
// memory. All ranks call it, whatever their configuration.
func (d *Data) ConnectPeers(c *config.TrainConfig) error {
	s, reader := d.Schedule(c.Train.Train, 0, nil)
	if d.Store == nil || s.Readers == 1 {
		return nil
	}
	t := d.Ranks
	machines, err := team.AllGatherOutcomes(t, team.Outcome[string]{Result: loader.Machine()}, nil)
	if err != nil {
		return err
	}
	remote := false
	for _, m := range machines {
		remote = remote || m != machines[0]
	}
	own, enabled := d.Ranks.Shard(), c.Data.Peers != config.PeersNever
	address := peerAddress{Slab: fmt.Sprint(own.LocalAxes(d.Axes).Levels, own.Window())}
	if enabled {
		if address.Peer, err = d.Source.Serve(fmt.Sprintf("rank %d", t.Comm.Process(t.Comm.Rank())), remote); err != nil {
			enabled = false
			d.Warnings = append(d.Warnings, fmt.Sprintf("other ranks cannot get samples from this rank and read the store instead: %v", err))
		}
	}
	addresses, err := team.AllGatherOutcomes(t, team.Outcome[peerAddress]{Result: address}, nil)
	if err != nil {
		return err
	}
	if enabled {
		peers := make([]loader.Peer, s.Readers)
		for r, rank := range t.Mesh.Group(t.Comm.Rank(), []string{"data"}) {
			if addresses[rank].Result.Slab == address.Slab {
				peers[r] = addresses[rank].Result.Peer
			}
		}
		d.Source.ConnectPeers(peers, reader, c.Data.Peers == config.PeersAlways)
		d.Source.PlanCaches(s, reader)
	}
	return t.AgreeOnError(nil) // all ranks listen before the first request
}

// Warnings returns problems with the sources of samples, of all ranks.
func (c InputCosts) Warnings(ranks *team.Team) ([]string, error) {
	var own []string
	if e := c.Counts.DiskError; e != nil {
		own = append(own, fmt.Sprintf("the disk cache cannot keep all samples, so the store is read instead: %v", e))
	}
	if e := c.Counts.PeerError; e != nil {
		own = append(own, fmt.Sprintf("samples in another rank's memory were read from the store instead: %v", e))
	}
	if ranks == nil {
		return own, nil
	}
	all, err := team.AllGatherOutcomes(ranks, team.Outcome[[]string]{Result: own}, nil)
	if err != nil {
		return nil, err
	}
	var warnings []string
	for rank, o := range all {
		for _, w := range o.Result {
			warnings = append(warnings, fmt.Sprintf("rank %d: %s", ranks.Comm.Process(rank), w))
		}
	}
	return warnings, nil
}
