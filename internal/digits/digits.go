// Package digits formats measured numbers with a sensible number of digits.
package digits

import "fmt"

// Three formats a number with about three significant digits: 0.12, 1.23, 12.3,
// 123, 1234.
func Three(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
