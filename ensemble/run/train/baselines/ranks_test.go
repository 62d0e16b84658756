package baselines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/scratch"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Three targets on two levels. Ranks divide them, with sets whole or shared by several ranks, and rank 0 has the result of
// one rank, with its warnings in their order. Each rank fits.
func TestFitOnRanks(t *testing.T) {
	k, d := noisy(t, "t,u,v")
	o := request(d)
	o.Methods = []*baseline.Method{{ID: "none", Fit: func(*baseline.Set) (baseline.Fit, error) { return nil, errors.New("on purpose") }}}
	for _, id := range []string{"emos_grid", "samos", "mbm", "climatology"} {
		o.Methods = append(o.Methods, baseline.MethodByID(id))
	}
	want, err := fitAll(context.Background(), k, d, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Baselines) != 6 || len(want.Warnings) != 6 || !strings.Contains(want.Warnings[2], "has no none: on purpose") {
		t.Fatalf("%d targets, warnings %q", len(want.Baselines), want.Warnings)
	}
	for _, ranks := range []int{2, 3, 4, 8} {
		fitted := make([]int, ranks)
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			own := *d
			own.Ranks = team.New(c)
			count := func(m *baseline.Method) *baseline.Method {
				counting := *m
				counting.Fit = func(s *baseline.Set) (baseline.Fit, error) {
					fitted[c.Rank()]++
					return m.Fit(s)
				}
				return &counting
			}
			counted := Options{Reference: count(o.Reference), Subsets: o.Subsets}
			for _, m := range o.Methods {
				counted.Methods = append(counted.Methods, count(m))
			}
			got, err := fitAll(context.Background(), k, &own, counted, nil)
			if err != nil {
				return err
			}
			if c.Rank() > 0 {
				if len(got.Baselines) > 0 || len(got.Warnings) > 0 {
					return fmt.Errorf("rank %d has %d targets", c.Rank(), len(got.Baselines))
				}
				return nil
			}
			for _, r := range got.References {
				r.Method = o.Reference
			}
			for _, b := range got.Baselines {
				for i := range b.Fits {
					b.Fits[i].Method = baseline.MethodByID(b.Fits[i].Method.ID)
				}
			}
			if d := differences(got, want); d != nil {
				return errors.New(strings.Join(d, "\n"))
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
		all := 0
		for rank, n := range fitted {
			if all += n; n == 0 {
				t.Errorf("rank %d of %d fits nothing", rank, ranks)
			}
		}
		if want := 6 * (len(o.Methods) + len(o.Subsets)); all != want {
			t.Errorf("%d ranks make %d fits, want %d", ranks, all, want)
		}
	}
}

// An error of one rank, of a fit or of its disk, ends the fits of all.
func TestFitFailsOnAllRanks(t *testing.T) {
	k, d := noisy(t, "t,u,v")
	t.Setenv("TMPDIR", "")
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		code exit.Code
		set  func(rank int, o *Options) *scratch.Space
	}{
		{"a full disk", exit.CannotWrite, func(rank int, _ *Options) *scratch.Space {
			if rank == 2 {
				return scratch.New(dir+"/none", 0)
			}
			return nil
		}},
		{"a reference", exit.Usage, func(rank int, o *Options) *scratch.Space {
			failing := *o.Reference
			failing.Fit = func(s *baseline.Set) (baseline.Fit, error) {
				if rank == 1 {
					return nil, baseline.ErrNoCases
				}
				return baseline.MethodByID(failing.ID).Fit(s)
			}
			o.Reference = &failing
			return nil
		}},
	} {
		errs := make([]error, 3)
		_ = comm.Run(3, comm.Parallel, func(g *comm.Comm) error {
			own, o := *d, request(d)
			own.Ranks = team.New(g)
			space := c.set(g.Rank(), &o)
			_, errs[g.Rank()] = fitAll(context.Background(), k, &own, o, space)
			return nil // an error would end ranks that still receive it
		})
		for rank, err := range errs {
			if exit.CodeOf(err) != c.code || !team.IsAgreed(err) {
				t.Errorf("%s: rank %d ends with %v", c.name, rank, err)
			}
		}
	}
}

// Whole sets go to ranks evenly; the fits of those that are left over go by cost to equal parts of the ranks.
func TestPlan(t *testing.T) {
	fits := []fit{{cost: 5}, {cost: 1}, {cost: 4}}
	for _, c := range []struct {
		sets, ranks   int
		owners, reads string
	}{
		{2, 1, "[0 0 0 0 0 0]", "[[0] [0]]"},
		{2, 2, "[0 0 0 1 1 1]", "[[0] [1]]"},
		{1, 2, "[0 1 1]", "[[0 1]]"},
		{5, 4, "[0 0 0 1 1 1 2 2 2 3 3 3 0 2 1]", "[[0] [1] [2] [3] [0 1 2]]"},
		{2, 5, "[0 1 1 2 4 3]", "[[0 1] [2 3 4]]"},
	} {
		p := newPlan(c.sets, fits, c.ranks)
		if owners, reads := fmt.Sprint(p.owners), fmt.Sprint(p.readers); owners != c.owners || reads != c.reads {
			t.Errorf("%d sets on %d ranks: owners %s, want %s; readers %s, want %s", c.sets, c.ranks, owners, c.owners, reads, c.reads)
		}
	}
	if got := fmt.Sprint(newPlan(5, fits, 4).setsOf(2)); got != "[2 4]" {
		t.Errorf("rank 2 holds the sets %s", got)
	}
}
