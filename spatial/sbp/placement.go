package sbp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// Placement is the placement of a tensor along one mesh axis: S(i), B or P.
type Placement int

const (
	B Placement = -1 - iota // B is broadcast: every rank holds the whole tensor.
	// P is partial: every rank holds a summand with the shape of the tensor.
	P
)

// S is split: every rank holds its part of dimension dim.
func S(dim int) Placement { return Placement(dim) }

// Dim returns the dimension that is split; ok is false for B and P.
func (l Placement) Dim() (dim int, ok bool) { return int(l), l >= 0 }

// String formats the placement as Parse reads it: "S0", "B" or "P".
func (l Placement) String() string {
	switch l {
	case B:
		return "B"
	case P:
		return "P"
	}
	return fmt.Sprintf("S%d", int(l))
}

// Signature has one placement for each axis of a mesh. If several axes split the
// same dimension, the first axis splits it, and the next splits its parts.
type Signature []Placement

// String formats a single placement as "S0", several in brackets as "(S0,B)".
func (s Signature) String() string {
	if len(s) == 1 {
		return s[0].String()
	}
	letters := make([]string, len(s))
	for i, l := range s {
		letters[i] = l.String()
	}
	return "(" + strings.Join(letters, ",") + ")"
}

// ErrSignature marks a signature that is malformed or that does not suit a mesh and
// a shape.
var ErrSignature = errors.New("invalid signature")

// Parse parses the format of String.
//
// Errors: ErrSignature.
func Parse(text string) (Signature, error) {
	inner, bracketed := strings.CutPrefix(text, "(")
	if bracketed {
		var closed bool
		if inner, closed = strings.CutSuffix(inner, ")"); !closed {
			return nil, fmt.Errorf("signature %q: bracket not closed: %w", text, ErrSignature)
		}
		if inner == "" {
			return Signature{}, nil
		}
	}
	var s Signature
	for word := range strings.SplitSeq(inner, ",") {
		l, err := parsePlacement(word)
		if err != nil {
			return nil, fmt.Errorf("signature %q: %w", text, err)
		}
		s = append(s, l)
	}
	if bracketed == (len(s) == 1) {
		return nil, fmt.Errorf("signature %q: use brackets for several placements only: %w", text, ErrSignature)
	}
	return s, nil
}

// parsePlacement parses one placement.
func parsePlacement(word string) (Placement, error) {
	switch word {
	case "B":
		return B, nil
	case "P":
		return P, nil
	}
	digits, split := strings.CutPrefix(word, "S")
	dim, err := strconv.ParseUint(digits, 10, 8)
	if !split || err != nil {
		return 0, fmt.Errorf("placement %q, want B, P or S with a dimension: %w", word, ErrSignature)
	}
	return S(int(dim)), nil
}

// check returns an error if a tensor of a shape cannot have the signature on a
// mesh.
func (s Signature) check(m spatial.Mesh, shape graph.Shape) error {
	if len(s) != len(m) {
		return fmt.Errorf("signature %v on a mesh of %d axes: %w", s, len(m), ErrSignature)
	}
	for _, l := range s {
		if l < P || int(l) >= len(shape) {
			return fmt.Errorf("signature %v of a tensor %v: %w", s, shape, ErrSignature)
		}
	}
	return nil
}

// replaced returns the signature with one placement replaced by another.
func (s Signature) replaced(old, by Placement) Signature {
	out := slices.Clone(s)
	for i, l := range out {
		if l == old {
			out[i] = by
		}
	}
	return out
}
