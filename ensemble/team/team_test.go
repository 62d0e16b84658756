package team

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
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
			for from := range n {
				want := message{}
				if rank == 0 {
					want = of(from)
				}
				if got, err = SendToRoot(t, from, of(rank)); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("rank %d has %v of rank %d, %v", rank, got, from, err)
				}
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

// Ranks refuse, warn of or record a difference, with the values of both, and the record lists what is equal.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		effect Effect
		code   exit.Code
	}{{Refused, exit.Usage}, {Warned, exit.OK}, {Recorded, exit.OK}} {
		onTeam(t, 3, func(ranks *Team) error {
			set := "avx512"
			if ranks.Comm.Rank() == 2 {
				set = "avx2"
			}
			got, err := ranks.Compare(Fact{Name: "version", Value: "1"}, Fact{Name: "the instruction set", Value: set, Effect: c.effect, Code: c.code, Why: "results differ by rounding", Fix: "use equal nodes"},
				Settings("long", strings.Repeat("x", 1000), ""))
			const what, at, why = "the ranks do not agree: the instruction set", "ranks [2] differ from rank 0", `rank 0 has "avx512", rank 2 has "avx2"; results differ by rounding`
			if c.effect == Refused {
				var e *exit.Error
				if !errors.As(err, &e) || e.Code != c.code || e.What != what || e.At != at || e.Why != why || !IsAgreed(err) {
					t.Errorf("refused with %v", err)
				}
				return nil
			}
			if err != nil {
				return err
			}
			var warnings []string
			if c.effect == Warned {
				warnings = []string{what + ": " + at + ": " + why}
			}
			if !slices.Equal(got.Warnings, warnings) {
				t.Errorf("effect %d: warnings %q", c.effect, got.Warnings)
			}
			if d := fmt.Sprint(got.Different); d != "[{the instruction set [{avx512 [0 1]} {avx2 [2]}]}]" || got.Same["version"] != "1" || len(got.Same["long"]) != len("sha256:")+64 || got.Ranks != 3 || got.Processes != 3 {
				t.Errorf("effect %d: recorded %+v", c.effect, got)
			}
			return nil
		})
	}
	onTeam(t, 2, func(ranks *Team) error {
		err := ranks.CheckSame(Settings("the configuration", fmt.Sprint(ranks.Comm.Rank()), fmt.Sprintf("a: 1\nb: %d\nc: %d", ranks.Comm.Rank(), ranks.Comm.Rank())))
		if err == nil || !strings.Contains(err.Error(), `rank 0 has "b: 0", rank 1 has "b: 1"`) {
			t.Errorf("the first line that differs: %v", err)
		}
		return nil
	})
}

// Tasks are distributed by cost. All ranks get all results in order, and the first task with an error ends all, as on one
// rank: the tasks before it are finished, and the results of these are taken.
func TestDistribute(t *testing.T) {
	const pieces = 23
	for _, n := range []int{1, 2, 4} {
		for _, perExchange := range []int{1, 3, 100} {
			for _, bad := range []int{pieces, 9} {
				tasks := Tasks{PerExchange: perExchange}
				for i := range pieces {
					tasks.Costs = append(tasks.Costs, int64(i*7%5+1))
				}
				ended := make([]error, n) // a rank that returned an error would end the others
				if err := comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
					w, err := SplitRanks(c, "")
					if err != nil {
						return err
					}
					var took []int
					own := map[int]bool{}
					ended[c.Rank()] = Distribute(context.Background(), w, tasks, func(i int) (int, error) {
						own[i] = true
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
					if want := min(bad, pieces); len(took) != want {
						t.Errorf("%d ranks, %d per exchange: took %d pieces, want %d", n, perExchange, len(took), want)
					}
					numbers := make([]int, pieces)
					for i := range numbers {
						numbers[i] = i
					}
					for _, i := range Assigned(w, tasks, numbers) {
						if i < bad && !own[i] {
							t.Errorf("%d ranks: assigned piece %d was another rank's", n, i)
						}
						delete(own, i)
					}
					if len(own) > 0 {
						t.Errorf("%d ranks: worked on %v of other ranks", n, own)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for _, err := range ended {
					if e := (*exit.Error)(nil); bad < pieces && (!errors.As(err, &e) || e.What != "piece 9 is bad") || bad == pieces && err != nil {
						t.Errorf("%d ranks: %v", n, err)
					}
				}
			}
		}
	}
}

// A stop signal to one rank ends all, with the results that precede it, and so does an error of one rank of a mesh.
func TestDistributeStops(t *testing.T) {
	tasks := Tasks{Costs: make([]int64, 40), PerExchange: 10}
	for _, mesh := range []string{"", "lat:2"} {
		for rank := range 4 {
			var tasksDone atomic.Int64
			ended := make([]error, 4)
			if err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
				w, err := SplitRanks(c, mesh)
				if err != nil {
					return err
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				ended[c.Rank()] = Distribute(ctx, w, tasks, func(i int) (int, error) {
					tasksDone.Add(1)
					if c.Rank() == rank && i > 3 {
						cancel()
					}
					return i, nil
				}, func(i, r int) error {
					if i != r {
						return fmt.Errorf("task %d has result %d", i, r)
					}
					return nil
				})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for r, err := range ended {
				if exit.CodeOf(err) != exit.SaveAndStop {
					t.Errorf("mesh %q, signal to rank %d: rank %d ends with %v", mesh, rank, r, err)
				}
			}
			if tasksDone.Load() >= 40 {
				t.Errorf("mesh %q, signal to rank %d: no task was left", mesh, rank)
			}
			if err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
				w, err := SplitRanks(c, mesh)
				if err != nil {
					return err
				}
				ended[c.Rank()] = Distribute(context.Background(), w, tasks, func(i int) (int, error) {
					if c.Rank() == rank && i > 3 {
						return 0, &exit.Error{Code: exit.IO, What: "disk is full", At: "out"}
					}
					return i, nil
				}, func(int, int) error { return nil })
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for r, err := range ended {
				var e *exit.Error
				if want := fmt.Sprintf("out (rank %d)", rank); !errors.As(err, &e) || e.At != want || !IsAgreed(err) {
					t.Errorf("mesh %q, error of rank %d: rank %d ends with %v", mesh, rank, r, err)
				}
			}
		}
	}
}

// Folders differ by any of the checksums that they list, also where no sample of their files is taken.
func TestListedChecksums(t *testing.T) {
	digest := func(at int) string {
		dir := t.TempDir()
		text := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
		text[at] = 'x'
		if err := os.WriteFile(filepath.Join(dir, manifest.SumsName), text, 0o666); err != nil {
			t.Fatal(err)
		}
		parts, err := manifest.ListFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		if err := hashSample(h, dir, parts); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	if digest(5000) == digest(5001) {
		t.Error("another checksum has the same digest")
	}
}

// Files, also those of folders, are read by one rank each, which no rank reads more than 5 % above the mean, and have the checksums
// that one rank computes.
func TestChecksumFiles(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	var files []string
	for i := range 200 {
		name := fmt.Sprintf("%03d", i)
		if i >= 100 { // half of them are the files of a folder
			name = filepath.Join("store", name)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, int(3000*math.Exp(rng.NormFloat64()))), 0o666); err != nil {
			t.Fatal(err)
		}
		if i < 100 {
			files = append(files, path)
		}
	}
	files = append(files, filepath.Join(dir, "store"))
	want, err := manifest.Sum(files...)
	if err != nil {
		t.Fatal(err)
	}
	onTeam(t, 4, func(ranks *Team) error {
		got, err := ranks.ChecksumFiles(context.Background(), files)
		if !slices.Equal(got, want) {
			return fmt.Errorf("rank %d: %v, %v", ranks.Comm.Rank(), got, err)
		}
		parts, err := ranks.sameFiles(files)
		if err != nil {
			return err
		}
		var mean, largest int64
		for rank := range 4 {
			sum := int64(0)
			for _, f := range ownFiles(parts, 4)[rank] {
				sum += f.Size()
			}
			mean, largest = mean+sum/4, max(largest, sum)
		}
		if float64(largest) > 1.05*float64(mean) {
			return fmt.Errorf("a rank reads %d bytes, the mean is %d", largest, mean)
		}
		return nil
	})
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
			last := m.Size() - 1
			to := [][]int{{last}, {0, last}, {}}
			byLevel, err := GatherLevels(ranks, part, n, to)
			if err != nil {
				return err
			}
			for l, got := range byLevel {
				var want []float32
				for i := range n {
					if slices.Contains(to[l], rank) {
						want = append(want, whole[(i*levels+l)*grid.Size():][:grid.Size()]...)
					}
				}
				if !slices.Equal(got, want) {
					return fmt.Errorf("%s, rank %d: level %d is %v, want %v", mesh, rank, l, got, want)
				}
			}
			return nil
		})
	}
}
