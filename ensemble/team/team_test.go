package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// onTeam calls f on ranks of this process.
func onTeam(t *testing.T, n int, f func(t *Team) error) {
	t.Helper()
	if err := comm.Run(n, comm.Parallel, func(c *comm.Comm) error { return f(New(c)) }); err != nil {
		t.Fatal(err)
	}
}

func TestLostRankHasItsExitCode(t *testing.T) {
	err := RankFailure(fmt.Errorf("a step: %w", &comm.RankError{Rank: 3, Err: errors.New("no answer")}))
	if exit.CodeOf(err) != exit.RankLost {
		t.Errorf("%v has exit code %d", err, exit.CodeOf(err))
	}
}

// Exchanged values arrive unchanged, also with a single rank.
func TestRanksTellEachOther(t *testing.T) {
	type message struct {
		From  int
		Words []string
	}
	of := func(rank int) message {
		return message{rank, slices.Repeat([]string{fmt.Sprint("word ", rank)}, 1+rank)}
	}
	for _, n := range []int{1, 2, 5} {
		onTeam(t, n, func(t *Team) error {
			rank := 0
			if t != nil {
				rank = t.Comm.Rank()
			}
			got, err := Broadcast(t, of(rank))
			if err != nil || fmt.Sprint(got) != fmt.Sprint(of(0)) {
				return fmt.Errorf("rank %d has %v of rank 0, %v", rank, got, err)
			}
			if t == nil {
				return nil
			}
			if got, err = Scatter(t, of); err != nil || rank > 0 && fmt.Sprint(got) != fmt.Sprint(of(rank)) {
				return fmt.Errorf("rank %d was given %v, %v", rank, got, err)
			}
			all, err := AllGatherOutcomes(t, Outcome[message]{Result: of(rank)}, nil)
			if err != nil {
				return err
			}
			for r, o := range all {
				if fmt.Sprint(o.Result) != fmt.Sprint(of(r)) {
					return fmt.Errorf("rank %d got %v from rank %d", rank, o.Result, r)
				}
			}
			return nil
		})
	}
}

// The error of one rank is returned on all ranks, with its number.
func TestAnErrorIsEverybodys(t *testing.T) {
	one := func(c *comm.Comm) error {
		var own error
		if c.Rank() == 1 {
			own = &exit.Error{Code: exit.BadData, What: "a field has no value", At: "file.grib"}
		}
		return New(c).AgreeOnError(own)
	}
	// All ranks get the error. None leaves the job here, which would end it for
	// ranks that still receive.
	if err := comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		if err := one(c); exit.CodeOf(err) != exit.BadData || !IsAgreed(err) {
			t.Errorf("rank %d ends with %v", c.Rank(), err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	err := comm.Run(3, comm.Parallel, one)
	if e := (*exit.Error)(nil); !errors.As(err, &e) || e.At != "file.grib (rank 1)" {
		t.Errorf("the job ends with %v", err)
	}
}

// Tasks are distributed in rounds. All ranks get all results in order, and the
// first task with an error ends all, as on one rank.
func TestDeal(t *testing.T) {
	const pieces = 7
	for _, n := range []int{1, 2, 4} {
		for _, bad := range []int{pieces, 3} {
			err := comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
				w, err := SplitRanks(c, "")
				if err != nil {
					return err
				}
				var took []int
				err = Distribute(context.Background(), w, pieces, func(i int) (int, error) {
					if i == bad || i == bad+1 {
						return 0, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("piece %d is bad", i)}
					}
					return i * i, nil
				}, func(i, r int) error {
					took = append(took, r)
					return nil
				})
				for i, r := range took {
					if r != i*i {
						t.Errorf("%d ranks: piece %d gave %d", n, i, r)
					}
				}
				want := pieces
				if bad < pieces { // the turns before it
					want = bad / n * n
				}
				if len(took) != want {
					t.Errorf("%d ranks took %d pieces, want %d", n, len(took), want)
				}
				return err
			})
			if e := (*exit.Error)(nil); bad < pieces && (!errors.As(err, &e) || e.What != "piece 3 is bad") || bad == pieces && err != nil {
				t.Errorf("%d ranks: %v", n, err)
			}
		}
	}
}

// Gathered shards give the original fields, and values per level and point are
// cropped like them.
func TestSlabs(t *testing.T) {
	const n, levels = 2, 3
	grid := &ensemble.Grid{NX: 8, NY: 6}
	whole := make([]float32, n*levels*grid.Size())
	for i := range whole {
		whole[i] = float32(i)
	}
	b := graph.New(0)
	x := b.Input("features", graph.Shape{n, 1, levels, grid.NY, grid.NX})
	b.Output("y", op.Scale(b, x, 2))
	gr, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, mesh := range []string{"lat:2", "lon:3", "lat:2 lon:2", "level:3", "data:2 lat:2"} {
		m, err := spatial.ParseMesh(mesh)
		if err != nil {
			t.Fatal(err)
		}
		onTeam(t, m.Size(), func(ranks *Team) error {
			ranks.Mesh = m
			if err := ranks.AssignShards(gr, grid, n); err != nil {
				return err
			}
			s, rank := ranks.Shard(), ranks.Comm.Rank()
			var perLevel []float64
			var maps [][]float32
			var part []float32
			for i := range n {
				for l := range levels {
					perLevel = append(perLevel, float64(i*levels+l))
					maps = append(maps, whole[(i*levels+l)*grid.Size():][:grid.Size()])
				}
			}
			for at, f := range CropMaps(SelectLevels(maps, s, rank), s, rank) {
				own := SelectLevels(perLevel, s, rank)[at]
				if want := ensemble.CropField(maps[int(own)], grid, s.Window()); !slices.Equal(f, want) {
					return fmt.Errorf("%s, rank %d: map %v is %v, not %v", mesh, rank, own, f, want)
				}
				part = append(part, f...)
			}
			joined, err := GatherFields(ranks, part, n)
			if err != nil {
				return err
			}
			if ranks.IsRoot() != slices.Equal(joined, whole) {
				return fmt.Errorf("%s, rank %d: the gathered shards differ from the whole", mesh, rank)
			}
			return nil
		})
	}
}
