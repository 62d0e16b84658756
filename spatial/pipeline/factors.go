package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// factorsOf lists the filters of all stages with the form of their Kronecker factors. As in one plan of all stages, a filter that
// several of them share has none.
func factorsOf(stages []*Stage, sums []Sum, maxSide int) (byStage [][]pass.LayerFactors) {
	isShared := func(param string) bool {
		return slices.ContainsFunc(sums, func(x Sum) bool { return slices.Contains(x.Params, param) && x.IsShared() })
	}
	for _, s := range stages {
		layers := pass.ChooseFactors(s.Graph, maxSide)
		for i, l := range layers {
			if l.Form != pass.NoFactors && (isShared(l.Param) || isShared(l.Bias)) {
				layers[i] = pass.LayerFactors{Param: l.Param, Form: pass.NoFactors, Why: "several stages share it"}
			}
		}
		byStage = append(byStage, layers)
	}
	return byStage
}

// Factors lists the filters of all stages with the form of their Kronecker factors, equal on all ranks; none without
// Options.MaxFactorSide.
func (w *Worker) Factors() []pass.LayerFactors { return slices.Concat(w.factors...) }

// Factor returns a Kronecker factor (pass.LayerFactors.RowsName or ColsName) of the last step with WithFactors; nil on workers that
// do not sum the gradients of its layer. It is that of one plan with the samples of all N pieces, whose loss is the sum of those of
// the pieces with the factors W of Weights, so that N·W·d is the gradient of the loss of one sample:
//
//	A = (1/N) Σ A(i),   G = N Σ W(i)² G(i)
//
// added in ascending order of pieces, then of pipes, then over data ranks; N counts the pieces of all data ranks.
//
// Source: Osawa, Li and Hoefler 2023, arXiv:2211.14133, section 3.
func (w *Worker) Factor(name string) []float32 { return w.step.factors[name] }

// factorParts calls visit with the name of each factor of a stage, and what it is multiplied by in the sum of a piece with a weight.
func (w *Worker) factorParts(stage int, weight float32, visit func(name string, by float32)) {
	n := float32(w.dataRanks() * w.s.Pieces())
	for _, l := range w.factors[stage] {
		if l.Form != pass.NoFactors {
			visit(l.ColsName(), 1/n)
			visit(l.RowsName(), n*weight*weight)
		}
	}
}

// addFactors adds the factors of a piece to those of the pieces before.
func (w *Worker) addFactors(h *held, weight float32) {
	first := h.pieces == 1
	w.factorParts(h.index, weight, func(name string, by float32) {
		x := h.plan.Output(name)
		if first {
			h.factors[name] = slices.Grow(h.factors[name][:0], len(x))[:len(x)]
			for i, v := range x {
				h.factors[name][i] = by * v
			}
			return
		}
		for i, v := range x {
			h.factors[name][i] += float32(by * v) // rounded, so that no processor fuses product and sum
		}
	})
}

// sumFactors adds the factors of the copies of each stage, and those of data ranks, on the worker that sums its gradients.
//
// Errors: those of messages.
func (w *Worker) sumFactors() error {
	x := &copySums[float32]{c: w.c, data: w.data, s: w.s, tag: w.s.sumTag() + len(w.sums)}
	for stage := range w.s.Stages {
		x.sums = append(x.sums, Sum{Values: w.factorLength(stage), Holders: w.s.copies(stage)})
	}
	x.pack = func(_ int, h Holder) []float32 { return w.packedFactors(w.held[h.Pipe]) }
	totals, err := x.total(add)
	if err != nil {
		return fmt.Errorf("pipeline: Kronecker factors: %w", err)
	}
	w.step.factors = map[string][]float32{}
	own := w.s.Stage(0, w.c.Rank())
	total := totals[own]
	for _, l := range w.factors[own] {
		if l.Form != pass.NoFactors {
			a, g := op.TriangleSize(l.Cols), op.TriangleSize(l.Rows)
			w.step.factors[l.ColsName()], w.step.factors[l.RowsName()], total = total[:a], total[a:a+g], total[a+g:]
		}
	}
	return nil
}

// factorLength is the number of values of a stage's factors.
func (w *Worker) factorLength(stage int) (n int) {
	for _, l := range w.factors[stage] {
		if l.Form != pass.NoFactors {
			n += op.TriangleSize(l.Cols) + op.TriangleSize(l.Rows)
		}
	}
	return n
}

// packedFactors copies the sums of a stage's factors over the pieces of one pipe.
func (w *Worker) packedFactors(h *held) (out []float32) {
	w.factorParts(h.index, 1, func(name string, _ float32) { out = append(out, h.factors[name]...) })
	return out
}
