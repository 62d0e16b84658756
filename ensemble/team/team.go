package team

import (
	"errors"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Team is a group of ranks that work on one task together, such as a training or a
// prediction. Nil is a single rank.
type Team struct {
	Comm  *comm.Comm
	Mesh  spatial.Mesh
	shard *Shard // of this rank; nil before Team.AssignShards
	// number of data-parallel groups, which share the samples of a batch; 0 if
	// every rank computes all samples
	DataGroups       int
	ShardedOptimiser bool // whether the optimiser of a training is sharded over the ranks
	// Compression makes sums of gradients sparse; nil: they are dense
	Compression *spatial.Compression
	// Pipeline divides the layers of a training over the ranks; nil: the mesh divides its fields
	Pipeline *Pipeline
}

// Pipeline is the division of a network's layers over the ranks of a team. Between steps the team works as on a mesh with a data
// axis of the stages, and the data ranks of Mesh: ranks have all samples, and whole fields or the shards of Mesh.
type Pipeline struct {
	Text string // for records
	Cuts []int  // first layer of each stage, and the number of layers, as in pipeline.Division
	// Mesh is that of the consecutive ranks that compute a stage together; nil: one rank.
	Mesh spatial.Mesh
}

// DataGroup is the group of a rank that reads the same samples of training batches, of Team.DataGroups; 0 if there is one. With a
// pipeline the data axis of Team.Mesh has the data ranks of all stages in turn.
func (t *Team) DataGroup(rank int) int {
	if t == nil || t.DataGroups == 0 {
		return 0
	}
	return t.Mesh.Coordinate(rank, spatial.DataAxis) % t.DataGroups
}

// Division describes how a network is divided over the ranks, for records: mesh or pipeline.
func (t *Team) Division() string {
	if t.Pipeline != nil {
		return t.Pipeline.Text
	}
	return t.Mesh.String()
}

// New returns the team of a group; nil for a group of one rank.
func New(c *comm.Comm) *Team {
	if c == nil || c.Size() == 1 {
		return nil
	}
	return &Team{Comm: c}
}

// Size returns the number of ranks.
func (t *Team) Size() int {
	if t == nil {
		return 1
	}
	return t.Comm.Size()
}

// IsRoot reports whether this is rank 0, which writes the results.
func (t *Team) IsRoot() bool { return t == nil || t.Comm.Rank() == 0 }

// BroadcastInt broadcasts a number from rank 0.
func (t *Team) BroadcastInt(n int64) (int64, error) {
	if t == nil {
		return n, nil
	}
	x := []int64{n}
	err := comm.Broadcast(t.Comm, 0, x)
	return x[0], err
}

// StopTogether returns a function that all ranks call together between steps. If
// one rank receives a stop signal, all stop. If one could not read its input (read), all
// return its error. Else all get the result of isDue on rank 0, where alone it is called.
//
// A rank that stopped alone would leave the others in a collective.
//
// Errors: exit 75 after a signal, with the first rank that received it; the error of the first rank with one; lost ranks.
func (t *Team) StopTogether(own func() error, isDue func() bool) func(read error) (due bool, err error) {
	if t == nil {
		return func(read error) (bool, error) {
			if read != nil {
				return false, read
			}
			return isDue(), own()
		}
	}
	return func(read error) (bool, error) {
		err := own()
		flags := []int64{0, 0, 0}
		if err != nil {
			flags[0] = 1
		}
		if read != nil {
			flags[1] = 1
		}
		if t.IsRoot() && isDue() {
			flags[2] = 1
		}
		if e := comm.AllReduce(t.Comm, flags, comm.Auto); e != nil {
			return false, e
		}
		switch {
		case flags[1] > 0:
			err = read
		case flags[0] == 0:
			return flags[2] > 0, nil
		}
		_, err = AllGatherOutcomes(t, Outcome[bool]{}, err)
		return false, err
	}
}

// Sum returns the sum of a number over all ranks. The order of the additions depends on
// the number of ranks only, not on arrival.
//
// Errors: lost ranks.
func (t *Team) Sum(x float64) (float64, error) {
	if t == nil {
		return x, nil
	}
	v := []float64{x}
	err := comm.AllReduce(t.Comm, v, comm.Auto)
	return v[0], err
}

// SumShards sums vectors over the ranks, each shard once. x is overwritten on the ranks
// that contribute.
func (t *Team) SumShards(x []float64) ([]float64, error) {
	if t == nil {
		return x, nil
	}
	if s := t.Shard(); s != nil && !s.primary[s.me] {
		x = make([]float64, len(x))
	}
	return x, comm.AllReduce(t.Comm, x, comm.Auto)
}

// AgreeOnError returns on all ranks the error of the first rank that has one; nil
// if none has. All ranks call it at the same point.
func (t *Team) AgreeOnError(err error) error {
	if other := (*comm.RankError)(nil); t == nil || errors.As(err, &other) {
		return err
	}
	failed := []int64{0}
	if err != nil {
		failed[0] = 1
	}
	if e := comm.AllReduce(t.Comm, failed, comm.Auto); e != nil || failed[0] == 0 {
		return e
	}
	_, err = AllGatherOutcomes(t, Outcome[bool]{}, err)
	return err
}

// MaxRanksPerProcess returns the largest number of ranks that one process hosts.
func (t *Team) MaxRanksPerProcess() int {
	n := 0
	for rank := range t.Size() {
		n = max(n, t.localRank(rank)+1)
	}
	return n
}

// localRank returns the index of a rank within its process. Ranks of a process have
// consecutive numbers.
func (t *Team) localRank(rank int) int {
	n := 0
	for rank > n && t.Comm.Process(rank-n-1) == t.Comm.Process(rank) {
		n++
	}
	return n
}

// Holder returns the first rank of the process of a rank that has the same shard: itself, or one that differs in its samples only.
func (t *Team) Holder(rank int) int {
	for r := rank - t.localRank(rank); r < rank; r++ {
		if slices.Equal(t.shard.boxes[r], t.shard.boxes[rank]) {
			return r
		}
	}
	return rank
}

// IsProcessRoot reports whether this is the first rank of its process.
func (t *Team) IsProcessRoot() bool { return t == nil || t.localRank(t.Comm.Rank()) == 0 }
