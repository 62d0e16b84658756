package spatial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// RankNorms.Rank is the mean of the squared norms that ranks with the samples of one data rank alone compute.
func TestRankNorms(t *testing.T) {
	const ranks = 2
	m := Mesh{{Name: "data", Size: ranks}}
	n, shape := layered(), layered().x
	whole := field(1, shape)
	var want float64
	for r := range ranks { // a batch of the samples of one rank only
		half := layered()
		half.x = shape.Clone()
		half.x[0] /= ranks
		err := comm.Run(1, comm.Parallel, func(c *comm.Comm) (err error) {
			p, err := (training{mesh: Mesh{{Name: "data", Size: 1}}, size: smallBuckets, device: "cpu"}).compile(half, c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			copy(p.Input("x"), whole[r*half.x.Size():])
			if err := p.Run(context.Background(), 0); err != nil {
				return err
			}
			for _, g := range p.Store().Grads() {
				want += float64(g) * float64(g) / ranks
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) (err error) {
		p, err := (training{mesh: m, size: smallBuckets, device: "cpu"}).compile(n, c)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		if !p.HasRankNorms() {
			return errors.New("data ranks have no norms")
		}
		for range 2 { // a run does not add to the one before
			ExtractBox(p.Input("x"), whole, shape, p.OwnedBox("x", shape))
			if err := p.Run(context.Background(), 0); err != nil {
				return err
			}
			var sum float64
			for _, g := range p.Store().Grads() {
				sum += float64(g) * float64(g)
			}
			if got, err := p.RankNorms(); err != nil || math.Abs(got.Rank-want) > 1e-5*want || math.Abs(got.Sum-sum) > 1e-5*sum {
				return fmt.Errorf("squared norms %v (error %v), want %g of a rank and %g of the sum", got, err, want, sum)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Only data ranks with dense sums have norms.
func TestNoRankNorms(t *testing.T) {
	for _, r := range []training{
		{mesh: Mesh{{Name: "data", Size: 2}, {Name: "lat", Size: 2}}},
		{mesh: Mesh{{Name: "lat", Size: 2}}},
		{mesh: Mesh{{Name: "data", Size: 2}}, sparse: &Compression{topk.Options{Density: 0.5}}},
	} {
		r.size, r.device = smallBuckets, "cpu"
		err := comm.Run(r.mesh.Size(), comm.Parallel, func(c *comm.Comm) error {
			p, err := r.compile(layered(), c)
			if err != nil {
				return err
			}
			if p.HasRankNorms() {
				err = errors.New("the plan has norms")
			}
			return errors.Join(err, p.Close())
		})
		if err != nil {
			t.Errorf("mesh %v: %v", r.mesh, err)
		}
	}
}
