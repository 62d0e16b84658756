package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/prune"
)

// Sparsity counts the nonzero weights in the filters of a network, and the bytes that they need in
// sparse formats. Parameters other than filters are not counted.
type Sparsity struct {
	Weights  int                    `json:"weights"`
	Nonzeros int                    `json:"nonzeros"`
	Sparsity float64                `json:"sparsity"` // 1 − nonzeros/weights
	Bytes    map[prune.Format]int64 `json:"bytes"`
	Layers   []LayerSparsity        `json:"layers"`
}

// LayerSparsity is the sparsity of one filter.
type LayerSparsity struct {
	Name     string  `json:"name"`
	Weights  int     `json:"weights"`
	Nonzeros int     `json:"nonzeros"`
	Sparsity float64 `json:"sparsity"`
}

// String summarises the sparsity in one line.
func (s Sparsity) String() string {
	var sizes []string
	for _, f := range prune.Formats {
		sizes = append(sizes, fmt.Sprintf("%s %.3g MB", f, float64(s.Bytes[f])/1e6))
	}
	return fmt.Sprintf("%d of %d filter weights are nonzero (sparsity %.4g): %s", s.Nonzeros, s.Weights, s.Sparsity, strings.Join(sizes, ", "))
}

// SparsityOf counts the zeros in the filters of a network.
//
// −0 counts as zero. Bytes, with their indices, are those of the filter as a matrix
// (prune.Layer.MatrixShape).
//
// Errors: a layer without weights.
func SparsityOf(layers []prune.Layer, w Weights) (Sparsity, error) {
	s := Sparsity{Bytes: map[prune.Format]int64{}}
	share := func(nonzeros, all int) float64 { return 1 - float64(nonzeros)/float64(all) }
	for _, l := range layers {
		i := slices.IndexFunc(w, func(x ckpt.Tensor) bool { return x.Name == l.Param })
		if i < 0 {
			return s, fmt.Errorf("parameter %s not found", l.Param)
		}
		v, err := w[i].Float32()
		if err != nil {
			return s, err
		}
		nonzeros := 0
		for _, x := range v {
			if x != 0 {
				nonzeros++
			}
		}
		rows, columns := l.MatrixShape()
		for _, f := range prune.Formats {
			s.Bytes[f] += f.Bytes(rows, columns, nonzeros)
		}
		s.Layers = append(s.Layers, LayerSparsity{l.Name, len(v), nonzeros, share(nonzeros, len(v))})
		s.Weights += len(v)
		s.Nonzeros += nonzeros
	}
	s.Sparsity = share(s.Nonzeros, s.Weights)
	return s, nil
}
