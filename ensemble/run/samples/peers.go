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

// readers are the ranks that have the same slab of samples and read them from each other: by rank, with
// the data-parallel group of each. The zero value is this rank alone.
type readers struct {
	groups []int // data-parallel group of each reader
	own    int   // this rank among them
}

// ConnectPeers connects ranks that hold the same slab, so that they exchange samples from memory. All ranks call it,
// whatever their configuration.
func (d *Data) ConnectPeers(c *config.TrainConfig) error {
	t := d.Ranks
	if d.Store == nil || t == nil {
		return nil
	}
	own := t.Shard()
	address := peerAddress{Slab: fmt.Sprint(own.LocalAxes(d.Axes).Levels, own.Window())}
	all, err := team.AllGatherOutcomes(t, team.Outcome[string]{Result: loader.Machine()}, nil)
	if err != nil {
		return err
	}
	remote := false
	for _, m := range all {
		remote = remote || m != all[0]
	}
	enabled := c.Data.Peers != config.PeersNever
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
	var peers []loader.Peer
	var found readers
	for rank, a := range addresses {
		if a.Result.Slab != address.Slab {
			continue
		}
		if rank == t.Comm.Rank() {
			found.own = len(peers)
		}
		peers, found.groups = append(peers, a.Result.Peer), append(found.groups, t.DataGroup(rank))
	}
	if enabled && len(peers) > 1 {
		d.readers = found
		d.Source.ConnectPeers(peers, found.own, c.Data.Peers == config.PeersAlways)
		d.PlanReads(d.firstPasses(c))
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
