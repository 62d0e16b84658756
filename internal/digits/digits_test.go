package digits

import "testing"

func TestThree(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 0.123: "0.12", 1.234: "1.23", 10: "10.0", 12.34: "12.3", 100: "100", 1234.5: "1234", 98765: "98765"} {
		if got := Three(x); got != want {
			t.Errorf("Three(%g) = %s, want %s", x, got, want)
		}
	}
}
