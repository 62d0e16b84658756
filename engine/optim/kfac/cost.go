package kfac

import (
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/balance"
)

// withFactors returns the layers that have factors.
func withFactors(layers []pass.LayerFactors) (all []pass.LayerFactors) {
	for _, l := range layers {
		if l.Form != pass.NoFactors {
			all = append(all, l)
		}
	}
	return all
}

// Bytes is the memory that a Preconditioner of these layers needs, in bytes: averages, inverses, workspace, with Options.Delayed
// the averages and inverses that wait and inversions that have begun, and with Options.History the factors of two updates.
func Bytes(layers []pass.LayerFactors, o Options) int64 {
	var n int64
	for _, l := range withFactors(layers) {
		triangles := int64(op.TriangleSize(l.Rows) + op.TriangleSize(l.Cols))
		version := triangles + int64(l.Rows)*int64(l.Rows) + int64(l.Cols)*int64(l.Cols)
		n += version + 2*int64(l.Rows)*int64(l.Width())
		if o.Delayed {
			n += version + sweepValues(l.Rows) + sweepValues(l.Cols)
		}
		if o.History {
			n += 2 * triangles
		}
	}
	return 4 * n
}

// sweepValues is the memory of an inversion that lasts for several pieces, in values of 4 bytes.
func sweepValues(side int) int64 {
	if sweepPieces(side) == 1 {
		return 0
	}
	return 2 * int64(side) * int64(side+sweepBlock)
}

// InverseRate is the rate of inversions in float64 on one thread: cubes of sides per second. A side of 865 takes 0.09 s of processor
// time (BenchmarkInverse, Xeon with AVX-512).
const InverseRate = 7e9

// InversionCost is the sum of the cubes of the sides that the busiest of a number of ranks inverts in an update.
func InversionCost(layers []pass.LayerFactors, ranks int) (most int64) {
	costs := inversionCosts(withFactors(layers))
	loads := make([]int64, ranks)
	for i, rank := range balance.LongestFirst(costs, ranks) {
		loads[rank] += costs[i]
		most = max(most, loads[rank])
	}
	return most
}

// ShareLayers returns a rank for each layer, of a number of ranks that own whole layers (Options.Owners): the cubes of the sides that
// the busiest inverts are few. Layers without factors cost nothing.
func ShareLayers(layers []pass.LayerFactors, ranks int) []int {
	costs := make([]int64, len(layers))
	for i, l := range layers {
		if l.Form != pass.NoFactors {
			pair := inversionCosts(layers[i : i+1])
			costs[i] = pair[0] + pair[1]
		}
	}
	return balance.LongestFirst(costs, ranks)
}

// InverseValues is the number of values of all inverses, which an update sends from the ranks that compute them to the others.
func InverseValues(layers []pass.LayerFactors) (n int64) {
	for _, l := range withFactors(layers) {
		n += int64(l.Rows)*int64(l.Rows) + int64(l.Cols)*int64(l.Cols)
	}
	return n
}

// ApplyFLOPs is the number of operations of the products of Apply, in every step on every rank.
func ApplyFLOPs(layers []pass.LayerFactors) (n int64) {
	for _, l := range withFactors(layers) {
		n += 2 * int64(l.Rows) * int64(l.Width()) * int64(l.Rows+l.Cols)
	}
	return n
}
