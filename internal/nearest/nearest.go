// Package nearest suggests the known word that a mistyped word was meant to be, and numbers near those that are refused.
package nearest

import "strings"

// Find returns the candidate with the smallest edit distance to word, or "" if more
// than a third of the letters, and more than one, would have to change. Of equal
// candidates the first is returned. If none is near, it returns the only candidate
// that starts with the word, for words of at least three letters.
func Find(word string, candidates []string) string {
	best, at := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := distance(word, c); d < at {
			best, at = c, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, c := range candidates {
		switch {
		case !strings.HasPrefix(string(fold(c)), string(fold(word))):
		case best != "":
			return ""
		default:
			best = c
		}
	}
	return best
}

// distance returns the number of insertions, deletions, substitutions and
// transpositions of neighbours that turn a into b (optimal string alignment). It
// ignores case and treats "-" as "_".
func distance(a, b string) int {
	x, y := fold(a), fold(b)
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(x); i++ {
		older, prev, cur := rows[0], rows[1], rows[2]
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], older[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = prev, cur, older
	}
	return rows[1][len(y)]
}

// fold returns s in lower case with "_" for "-".
func fold(s string) []byte {
	b := []byte(s)
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			b[i] = c - 'A' + 'a'
		case c == '-':
			b[i] = '_'
		}
	}
	return b
}
