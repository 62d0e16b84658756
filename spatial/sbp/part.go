package sbp

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// evenPart returns the k-th of p parts of an interval. Sizes differ by at most one,
// larger parts first: 7 in 4 parts are 2, 2, 2, 1.
func evenPart(v spatial.Interval, p, k int) spatial.Interval {
	size, larger := v.Len()/p, v.Len()%p
	lo := v.Lo + k*size + min(k, larger)
	if k < larger {
		size++
	}
	return spatial.Interval{Lo: lo, Hi: lo + size}
}

// Part returns the box of a tensor of a shape that a rank holds; for P, the box of
// its summand. The box is empty if a dimension is split into more parts than it has
// indices.
//
// Errors: ErrSignature.
func Part(m spatial.Mesh, shape graph.Shape, s Signature, rank int) (spatial.Box, error) {
	if err := s.check(m, shape); err != nil {
		return nil, err
	}
	return part(m, shape, s, rank), nil
}

// part is Part for a signature that is known to be valid.
func part(m spatial.Mesh, shape graph.Shape, s Signature, rank int) spatial.Box {
	box := make(spatial.Box, len(shape))
	for i, n := range shape {
		box[i] = spatial.Interval{Lo: 0, Hi: n}
	}
	at := coordinates(m, rank)
	for a, l := range s {
		if dim, ok := l.Dim(); ok {
			box[dim] = evenPart(box[dim], m[a].Size, at[a])
		}
	}
	return box
}

// coordinates returns the coordinates of a rank on the axes of a mesh.
func coordinates(m spatial.Mesh, rank int) []int {
	at := make([]int, len(m))
	for a := len(m) - 1; a >= 0; a-- {
		at[a], rank = rank%m[a].Size, rank/m[a].Size
	}
	return at
}
