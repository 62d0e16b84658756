package explain

import "fmt"

// bytesText formats a size.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// flopsText formats a number of floating-point operations.
func flopsText(n int64) string {
	switch {
	case n >= 1e12:
		return fmt.Sprintf("%.3f TFLOP", float64(n)/1e12)
	case n >= 1e9:
		return fmt.Sprintf("%.2f GFLOP", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f MFLOP", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kFLOP", float64(n)/1e3)
	}
	return fmt.Sprintf("%d FLOP", n)
}

// timeText formats a time.
func timeText(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.2f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f µs", s*1e6)
}

// boolToInt returns 1 for true.
func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
