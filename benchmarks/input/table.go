package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/digits"
)

// series are the figures of one contestant over the rounds.
type series []float64

func (s series) median() float64 {
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// String is the median, with the smallest and largest if there are several.
func (s series) String() string {
	if len(s) == 1 {
		return digits.Three(s[0])
	}
	return fmt.Sprintf("%s [%s–%s]", digits.Three(s.median()), digits.Three(slices.Min(s)), digits.Three(slices.Max(s)))
}

// row is one case: ours, and peers by name.
type row struct {
	name, unit string
	ours       series
	peers      []peerSeries
}

type peerSeries struct {
	name string
	took series
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
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.2f | %g |\n", r.name, r.ours, r.unit, p.name, p.took, p.took.median()/r.ours.median(), p.want)
		}
	}
	for _, n := range t.notes {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}
