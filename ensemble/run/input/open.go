package input

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// Opener opens input files, as fio.Open does.
type Opener func(ctx context.Context, paths []string, o fio.Options) (*fio.Input, error)

// OpenerOf returns the opener of the ranks of a team: rank 0 reads the metadata of files and sends the index to the others. All
// ranks call it with the same arguments, and have the same error. All files are decoded by the children of pool; with nil, each
// Input has its own.
func OpenerOf(ranks *team.Team, pool *decode.Pool) Opener {
	return func(ctx context.Context, paths []string, o fio.Options) (in *fio.Input, err error) {
		if o.Pool == nil {
			o.Pool = pool
		}
		if ranks == nil {
			return fio.Open(ctx, paths, o)
		}
		if err := ranks.AgreeOnError(nil); err != nil { // a rank that failed before is here too
			return nil, err
		}
		index := &fio.Index{}
		err = onRoot(ranks, func() (err error) {
			in, err = fio.Open(ctx, paths, o)
			return err
		})
		if err = ranks.AgreeOnError(err); err != nil {
			return nil, err
		}
		if ranks.IsRoot() {
			index = in.Index()
		}
		index, err = team.Broadcast(ranks, index)
		if err == nil && !ranks.IsRoot() {
			in, err = fio.OpenIndexed(index, o)
		}
		if err = ranks.AgreeOnError(err); err != nil && in != nil {
			in.Close()
			in = nil
		}
		return in, err
	}
}

// aliveInterval is the time after which rank 0 tells the ranks that wait for it that it still works, so that it does not count as lost.
const aliveInterval = 5 * time.Second

// onRoot calls f on rank 0 while the other ranks wait, and returns its error there. On the others the error is that of lost
// ranks.
func onRoot(ranks *team.Team, f func() error) error {
	if !ranks.IsRoot() {
		for {
			if working, err := ranks.BroadcastInt(0); working == 0 || err != nil {
				return err
			}
		}
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(aliveInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if _, lost := ranks.BroadcastInt(0); lost != nil {
				return lost
			}
			return err
		case <-tick.C:
			if _, err := ranks.BroadcastInt(1); err != nil {
				<-done
				return err
			}
		}
	}
}
