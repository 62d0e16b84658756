package run

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// crew is the ranks of a job whose pieces of work, dates as a rule, do not depend on
// each other. The zero value is one rank alone.
type crew struct {
	all   *team // nil for one rank alone
	share *team // the ranks that work on one piece together; nil if each works on its own
}

// newCrew parts the ranks of a job into teams of the size of a mesh, and makes each
// work on pieces of its own; a mesh of one rank gives each rank its own pieces.
//
// Errors: exit 64 for a mesh that does not divide the ranks, or with an axis "data".
func newCrew(c *comm.Comm, mesh string) (w crew, err error) {
	m, err := spatial.ParseMesh(mesh)
	if err != nil {
		return w, err
	}
	ranks := 1
	if c != nil {
		ranks = c.Size()
	}
	bad := func(why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the mesh %v does not suit a job of %d ranks", m, ranks), At: "--mesh", Why: why, Fix: fix}
	}
	for _, a := range m {
		if a.Name == "data" {
			return w, bad("starts are dealt out to groups of ranks by themselves", "name only level, lat and lon")
		}
	}
	if ranks%m.Size() != 0 {
		return w, bad(fmt.Sprintf("each start takes %d ranks", m.Size()), "start a multiple of as many ranks under mpirun or srun, or choose another mesh")
	}
	w.all = newTeam(c)
	if m.Size() == 1 {
		return w, nil
	}
	group, err := c.Split(c.Rank()/m.Size(), c.Rank())
	w.share = &team{c: group, mesh: m}
	return w, err
}

// onCrew calls f on the ranks of the job that an MPI launcher started, else on this
// process alone.
//
// Errors: those of newCrew and f; exit 71 if a rank was lost.
func onCrew(mesh string, f func(w crew) error) error {
	as := func(c *comm.Comm) error {
		w, err := newCrew(c, mesh)
		if err := newTeam(c).together(err); err != nil {
			return err
		}
		return f(w)
	}
	if _, launched := mpi.Launched(os.Getenv); !launched {
		return as(nil)
	}
	_, err := onRanks(0, 0, config.DefaultStall, as)
	return err
}

// groups is how many pieces are under way at once, group which of them is this rank's.
func (w crew) groups() int {
	if w.all == nil {
		return 1
	}
	return w.all.c.Size() / w.share.size()
}

func (w crew) group() int {
	if w.all == nil {
		return 0
	}
	return w.all.c.Rank() / w.share.size()
}

// mine are the pieces that deal gives this rank.
func mine[T any](w crew, pieces []T) []T {
	var out []T
	for i := w.group(); i < len(pieces); i += w.groups() {
		out = append(out, pieces[i])
	}
	return out
}

// outcome is what a rank tells the others of a piece.
type outcome[T any] struct {
	Result T
	Error  *exit.Error
}

// deal lets the groups of a crew work on the pieces 0 to n-1 in turns: group g on the
// pieces g, g+groups and so on. All ranks are given all results, in the order of the
// pieces, whoever made them; of a group that of its first rank. After a turn with an
// error all end.
//
// Errors: that of the first piece with one, as one rank would have found it; exit 75
// if a rank's context is cancelled; what take gives; ranks that are lost.
func deal[T any](ctx context.Context, w crew, n int, work func(i int) (T, error), take func(i int, r T) error) error {
	for first := 0; first < n; first += w.groups() {
		var o outcome[T]
		err := ctx.Err()
		if i := first + w.group(); i < n && err == nil {
			o.Result, err = work(i)
		}
		if w.all == nil {
			if err != nil {
				return err
			}
			if err := take(first, o.Result); err != nil {
				return err
			}
			continue
		}
		all, err := tell(w.all, o, err)
		if err != nil {
			return err
		}
		for r := 0; r < len(all); r += w.share.size() {
			if i := first + r/w.share.size(); i < n {
				if err := take(i, all[r].Result); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// together gives all ranks the error of the first that has one; nil if none has. All
// ranks of the team call it, at the same place.
func (t *team) together(err error) error {
	if other := (*comm.RankError)(nil); t == nil || errors.As(err, &other) {
		return err
	}
	failed := []int64{0}
	if err != nil {
		failed[0] = 1
	}
	if e := comm.AllReduce(t.c, failed, comm.Auto); e != nil || failed[0] == 0 {
		return e
	}
	_, err = tell(t, outcome[bool]{}, err)
	return err
}

// tell gives all ranks what each has to say, by rank.
//
// Errors: that of the first rank that has one; ranks that are lost.
func tell[T any](t *team, o outcome[T], err error) ([]outcome[T], error) {
	if err != nil {
		if other := (*comm.RankError)(nil); errors.As(err, &other) {
			return nil, err // there is no talking any more
		}
		if o.Error = told(err); !Joint(err) {
			o.Error.At = strings.TrimSpace(fmt.Sprintf("%s (rank %d)", o.Error.At, t.c.Process(t.c.Rank())))
		}
	}
	all, err := exchange(t.c, o)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.Error != nil {
			return nil, &jointError{a.Error}
		}
	}
	return all, nil
}

// exchange gives all ranks the values of all, by rank.
func exchange[T any](c *comm.Comm, x T) ([]T, error) {
	var own bytes.Buffer
	if err := gob.NewEncoder(&own).Encode(&x); err != nil {
		return nil, fmt.Errorf("a message to other ranks: %w", err)
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
			return nil, fmt.Errorf("a message of rank %d: %w", c.Process(r), err)
		}
	}
	return all, nil
}

// told is an error as other ranks are told of it, without its causes.
func told(err error) *exit.Error {
	if errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.SaveAndStop, What: "told to stop", Fix: "run the same command again; what was finished is kept"}
	}
	e := *answer.Error(err)
	e.Err, e.More = nil, slices.Clone(e.More)
	for i, m := range e.More {
		e.More[i] = told(m)
	}
	return &e
}

// jointError is an error that all ranks have. They leave the job together, and rank 0
// reports it.
type jointError struct{ err *exit.Error }

func (e *jointError) Error() string { return e.err.Error() }

// Unwrap gives the error of the rank that had it.
func (e *jointError) Unwrap() error { return e.err }

// Joint tells whether an error is one that all ranks of a job have, so that the report
// of rank 0 is enough.
func Joint(err error) bool {
	var j *jointError
	return errors.As(err, &j)
}
