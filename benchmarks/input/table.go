package main

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/measure"
)

// row is one case: ours, and peers by name.
type row struct {
	name, unit string
	ours       measure.Series
	peers      []peerSeries
}

type peerSeries struct {
	name string
	took measure.Series
	want float64 // ratio that is aimed at
}

// table collects rows.
type table struct {
	rounds int
	rows   []row
	notes  []string
}

// markdown prints a line for each pair of ours and a peer.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d alternate rounds, with the smallest and largest of them.\n\n", t.rounds)
	b.WriteString("| case | ours | unit | peer | it takes | ratio | wanted |\n|---|--:|---|---|--:|--:|--:|\n")
	for _, r := range t.rows {
		for _, p := range r.peers {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.2f | %g |\n", r.name, r.ours, r.unit, p.name, p.took, p.took.Median()/r.ours.Median(), p.want)
		}
	}
	for _, n := range t.notes {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}
