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

// Placement says how the ranks along one axis of a mesh hold a tensor: S(i), B or P.
type Placement int

const (
	// B is broadcast: every rank holds the whole.
	B Placement = -1 - iota
	// P is partial: every rank holds a summand of the whole's shape.
	P
)

// S is split: every rank holds its part of dimension dim.
func S(dim int) Placement { return Placement(dim) }

// Dim is the dimension that the letter splits; ok is false for B and P.
func (l Placement) Dim() (dim int, ok bool) { return int(l), l >= 0 }

func (l Placement) String() string {
	switch l {
	case B:
		return "B"
	case P:
		return "P"
	}
	return fmt.Sprintf("S%d", int(l))
}

// Signature has one letter for each axis of a mesh. Where several axes split one
// dimension, the first of them cuts first, and the next cuts its parts.
type Signature []Placement

// String is the letter of a single axis, as in "S0", or the letters in brackets,
// as in "(S0,B)".
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

// ErrSignature is a signature that cannot be read, or that a mesh and a shape do not
// have.
var ErrSignature = errors.New("no such signature")

// Parse reads what String writes.
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
		return nil, fmt.Errorf("signature %q: brackets are for several letters: %w", text, ErrSignature)
	}
	return s, nil
}

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
		return 0, fmt.Errorf("letter %q, want B, P or S with a dimension: %w", word, ErrSignature)
	}
	return S(int(dim)), nil
}

// check refuses a signature that a tensor of a shape cannot have on a mesh.
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

// replaced is the signature with a letter in the place of another.
func (s Signature) replaced(old, by Placement) Signature {
	out := slices.Clone(s)
	for i, l := range out {
		if l == old {
			out[i] = by
		}
	}
	return out
}
