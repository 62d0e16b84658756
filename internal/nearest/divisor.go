package nearest

// Divisor returns the divisor of n that is nearest to k, the smaller one of two.
func Divisor(n, k int) int {
	best := 1
	for d := 2; d <= n; d++ {
		if n%d == 0 && max(d-k, k-d) < max(best-k, k-best) {
			best = d
		}
	}
	return best
}
