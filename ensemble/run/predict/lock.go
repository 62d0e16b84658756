package predict

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/io/product"
)

// lockPoll is the time between two looks at the lock of another process.
const lockPoll = time.Second

// lockWait bounds for how long a rank waits for a lock: the others of its job would take it
// for lost.
const lockWait = config.DefaultStall / 2

// lock makes this process the only one that makes the products of a start. Where another one
// is at it, it waits until the deadline of the input; what that one published meanwhile is
// given back, as already gives it. Of ranks that share a start the leading one has the lock.
//
// Errors: exit 73 if another process is at it, still at the deadline or without one;
// ctx.Err().
func (p *prediction) lock(ctx context.Context, init ensemble.Init) (l *lease.Lease, there *product.Manifest, err error) {
	if p.ranks.Leads() {
		if l, err = p.takeLock(ctx, init); err == nil {
			there, err = p.existing(init)
		}
	}
	if there, err = p.told(there, err); err != nil || there != nil {
		return nil, there, errors.Join(err, l.Release())
	}
	return l, nil, nil
}

func (p *prediction) takeLock(ctx context.Context, init ensemble.Init) (*lease.Lease, error) {
	until := p.until
	if most := time.Now().Add(lockWait); p.ofJob && until.After(most) {
		until = most
	}
	for first := true; ; first = false {
		l, err := product.Lock(p.o.Out, init)
		left := time.Until(until)
		var e *exit.Error
		if !errors.Is(err, lease.ErrHeld) || left <= 0 || !errors.As(err, &e) {
			return l, err
		}
		if first && p.o.Warn != nil {
			p.o.Warn(fmt.Sprintf("waiting until %s: %s: %s: %s", until.UTC().Format(time.RFC3339), e.What, e.At, e.Why))
		}
		pause := time.NewTimer(min(lockPoll, left))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		case <-pause.C:
		}
	}
}

// tidy clears up after one that was killed when a start was complete. What cannot be cleared
// up is no fault of the start.
func (p *prediction) tidy(init ensemble.Init) {
	if !p.ranks.Leads() {
		return
	}
	if err := product.Tidy(p.o.Out, init); err != nil && p.o.Warn != nil {
		p.o.Warn("what a killed process left stays: " + strings.ReplaceAll(err.Error(), "\n", ": "))
	}
}

// told gives all ranks of a start what the leading one found.
func (p *prediction) told(there *product.Manifest, err error) (*product.Manifest, error) {
	if p.ranks == nil {
		return there, err
	}
	all, err := team.Tell(p.ranks, team.Outcome[*product.Manifest]{Result: there}, err)
	if err != nil {
		return nil, err
	}
	return all[0].Result, nil
}
