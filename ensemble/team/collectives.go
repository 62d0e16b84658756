package team

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

func init() { // values of ensemble.Grid.Mapping besides those that gob has
	gob.Register([]float64{})
	gob.Register([]string{})
}

// Outcome is the result of a task, or its error, as ranks exchange it.
type Outcome[T any] struct {
	Result T
	Error  *exit.Error
}

// AllGatherOutcomes exchanges the outcomes of all ranks; every rank gets all, by
// rank.
//
// A rank with an error takes part too, since the others would wait for it without limit.
// The error of the rank with the lowest number is the same on all ranks, and names that
// rank.
//
// Errors: that of the first rank with an error; lost ranks.
func AllGatherOutcomes[T any](t *Team, o Outcome[T], err error) ([]Outcome[T], error) {
	if err != nil {
		if other := (*comm.RankError)(nil); errors.As(err, &other) {
			return nil, err // a rank is lost: no further exchange is possible
		}
		o.Error = t.ownError(err)
	}
	all, e := AllGather(t.Comm, o)
	if e != nil {
		return nil, e
	}
	for rank, a := range all {
		if a.Error == nil {
			continue
		}
		if rank == t.Comm.Rank() {
			a.Error.Err = err // the cause, which others do not get
		}
		return nil, &agreedError{a.Error}
	}
	return all, nil
}

// AllGather is an all-gather of values of any type, by rank. Values are encoded
// with encoding/gob.
//
// Messages are padded to the longest, because an all-gather of bytes needs equal sizes.
// Pointers are followed and unexported fields are lost, as gob defines.
//
// Cost: two collectives, the first of one number.
func AllGather[T any](c *comm.Comm, x T) ([]T, error) {
	var own bytes.Buffer
	if err := gob.NewEncoder(&own).Encode(&x); err != nil {
		return nil, fmt.Errorf("encoding a message to other ranks: %w", err)
	}
	sizes, err := comm.AllGather(c, []int64{int64(own.Len())})
	if err != nil {
		return nil, err
	}
	room := int64(0)
	for _, n := range sizes {
		room = max(room, n)
	}
	texts, err := comm.AllGather(c, append(own.Bytes(), make([]byte, room-int64(own.Len()))...))
	if err != nil {
		return nil, err
	}
	all := make([]T, c.Size())
	for r, n := range sizes {
		if err := gob.NewDecoder(bytes.NewReader(texts[int64(r)*room:][:n])).Decode(&all[r]); err != nil {
			return nil, fmt.Errorf("decoding a message from rank %d: %w", c.Process(r), err)
		}
	}
	return all, nil
}

// Broadcast broadcasts a value from rank 0. On the other ranks x is not read.
//
// Errors: a value that gob cannot encode; lost ranks.
func Broadcast[T any](t *Team, x T) (T, error) {
	if t == nil {
		return x, nil
	}
	var own bytes.Buffer
	if t.IsRoot() {
		if err := gob.NewEncoder(&own).Encode(&x); err != nil {
			return x, fmt.Errorf("encoding a message to other ranks: %w", err)
		}
	}
	size, err := t.BroadcastInt(int64(own.Len()))
	if err != nil {
		return x, err
	}
	text := append(own.Bytes(), make([]byte, int(size)-own.Len())...)
	if err := comm.Broadcast(t.Comm, 0, text); err != nil || t.IsRoot() {
		return x, err
	}
	var received T // not into x: gob omits zero fields, and old values would remain
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&received); err != nil {
		return x, fmt.Errorf("decoding a message from rank %d: %w", t.Comm.Process(0), err)
	}
	return received, nil
}

// Scatter sends a value of(rank) from rank 0 to each other rank. Rank 0 gets the zero
// value, and of is called there only. Values are sent one by one, so only one is in
// memory.
//
// Errors: as Broadcast.
func Scatter[T any](t *Team, of func(rank int) T) (x T, err error) {
	if !t.IsRoot() {
		return receive[T](t, 0)
	}
	for r := 1; r < t.Size(); r++ {
		if err := send(t, r, of(r)); err != nil {
			return x, err
		}
	}
	return x, nil
}

// SendToRoot sends a value of rank from to rank 0, where it is returned; the others get the zero value. Only rank from
// reads x.
//
// Errors: as Broadcast.
func SendToRoot[T any](t *Team, from int, x T) (received T, err error) {
	switch {
	case t.IsRoot() && from == 0:
		return x, nil
	case t.IsRoot():
		return receive[T](t, from)
	case t.Comm.Rank() == from:
		return received, send(t, 0, x)
	}
	return received, nil
}

// send sends a value of any type to a rank, which calls receive.
func send[T any](t *Team, to int, x T) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(&x); err != nil {
		return fmt.Errorf("encoding a message to other ranks: %w", err)
	}
	if err := t.Comm.Send(to, fieldTag, []int64{int64(text.Len())}).Wait(); err != nil {
		return err
	}
	return t.Comm.Send(to, fieldTag, text.Bytes()).Wait()
}

// receive receives a value that a rank sends.
func receive[T any](t *Team, from int) (x T, err error) {
	size := make([]int64, 1)
	if err := t.Comm.Recv(from, fieldTag, size).Wait(); err != nil {
		return x, err
	}
	text := make([]byte, size[0])
	if err := t.Comm.Recv(from, fieldTag, text).Wait(); err != nil {
		return x, err
	}
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&x); err != nil {
		return x, fmt.Errorf("decoding a message from rank %d: %w", t.Comm.Process(from), err)
	}
	return x, nil
}

// ownError returns an error of this rank as it is sent to other ranks: with the number of this rank, unless all have it
// or the job has one process.
func (t *Team) ownError(err error) *exit.Error {
	e := withoutCauses(err)
	if IsAgreed(err) || ProcessCount(t.Comm) == 1 {
		return e
	}
	return atRank(e, t.Comm.Process(t.Comm.Rank()))
}

// atRank adds the number of a rank to the place of an error.
func atRank(e *exit.Error, rank int) *exit.Error {
	e.At = strings.TrimSpace(fmt.Sprintf("%s (rank %d)", e.At, rank))
	return e
}

// withoutCauses returns an error without its wrapped causes, as it is sent to other ranks.
// Causes are Go values that gob cannot encode; the texts for users stay.
func withoutCauses(err error) *exit.Error {
	if errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.SaveAndStop, What: "received a stop signal", Fix: "run the same command again; finished results are kept"}
	}
	e := *answer.Error(err)
	e.Err, e.More = nil, slices.Clone(e.More)
	for i, m := range e.More {
		e.More[i] = withoutCauses(m)
	}
	return &e
}

// agreedError is an error that all ranks have. They leave the job together, and
// rank 0 reports it.
type agreedError struct{ err *exit.Error }

func (e *agreedError) Error() string { return e.err.Error() }

// Unwrap returns the error of the rank where it occurred.
func (e *agreedError) Unwrap() error { return e.err }

// IsAgreed reports whether all ranks of a job have the error, so that only rank 0
// needs to report it.
func IsAgreed(err error) bool {
	var j *agreedError
	return errors.As(err, &j)
}
