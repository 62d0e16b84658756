package filler

import "github.com/ensemble-weather/ensemble/spatial/cluster"

// Wait is what a piece of work waits for in the first step of a round.
type Wait uint8

// The kinds of Wait. Piece i waits for i+1 passes; in later steps of the round all pieces are ready.
const (
	Nothing  Wait = iota
	Forward       // passes of micro-batches forward on the worker, which leave the inputs of layers
	Backward      // passes backward, which leave the gradients of results
)

// AnyPipe counts the passes of all stages that a worker holds.
const AnyPipe = -1

// Item is work for the idle times of a worker: pieces of equal time, none of which is divided over two idle times.
type Item struct {
	Name   string
	Pieces int
	Time   cluster.Time // of one piece
	Waits  Wait
	Pipe   int   // of the passes that pieces wait for, or AnyPipe
	After  []int // earlier items of which all pieces must be placed before, by index
}

// Inversion is the inversion of a factor in pieces of a number of operations each, at a rate of operations per second.
func Inversion(pieces, operations int, rate float64) Item {
	return Item{Name: "inversion", Pieces: pieces, Time: cluster.Time(float64(operations) / rate * float64(cluster.Second)), Pipe: AnyPipe}
}

// Factor holds the times of the work for one of the two Kronecker factors of a stage's layers.
type Factor struct {
	Curvature cluster.Time // sum of outer products of one micro-batch
	Sync      cluster.Time // sum over the replicas of the stage; 0 without replicas
	Inversion cluster.Time
}

// KFAC lists the work of a refresh of K-FAC for one stage, in the order in which it is placed: curvature, sums over replicas and
// inversions, each of A (inputs of layers) and B (gradients of their results). micro is the number of micro-batches that pass the
// stage in a step, pipe that of the stage.
//
// Source: Martens and Grosse 2015, arXiv:1503.05671 (K-FAC); Osawa, Li and Hoefler 2023, arXiv:2211.14133, section 3.
func KFAC(a, b Factor, micro, pipe int) []Item {
	items := []Item{
		{Name: "curvature A", Pieces: micro, Time: a.Curvature, Waits: Forward, Pipe: pipe},
		{Name: "curvature B", Pieces: micro, Time: b.Curvature, Waits: Backward, Pipe: pipe},
	}
	factors := []Factor{a, b}
	after := [][]int{{0}, {1}} // of the inversions
	for k, f := range factors {
		if f.Sync > 0 {
			after[k] = append(after[k], len(items))
			items = append(items, Item{Name: "sync " + string("AB"[k]), Pieces: 1, Time: f.Sync, After: []int{k}})
		}
	}
	for k, f := range factors {
		items = append(items, Item{Name: "inversion " + string("AB"[k]), Pieces: 1, Time: f.Inversion, After: after[k]})
	}
	return items
}
