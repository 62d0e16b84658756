package grib

import (
	"testing"
	"time"
)

// forecastSection1 is a section 1 of edition 1 with a local section of ECMWF.
func forecastSection1(parameter, table, class, kind, stream int) Octets {
	o := make(Octets, 52)
	for n, x := range map[int]int{4: table, 5: centreECMWF, 9: parameter, 42: class, 43: kind, 44: stream >> 8, 45: stream & 255} {
		o[n-1] = byte(x)
	}
	return o
}

func TestIntervalECMWF(t *testing.T) {
	const lead = 36 * time.Hour
	for _, c := range []struct {
		name string
		o    Octets
		want time.Duration
	}{
		{"operational ensemble", forecastSection1(228, 128, 1, 11, 1035), lead},
		{"seasonal forecast of C3S", forecastSection1(228, 128, 31, 9, 1220), lead},
		{"ERA-Interim", forecastSection1(169, 128, 14, 9, 1025), lead},
		{"ERA5-Land", forecastSection1(228, 128, 33, 9, 1025), lead},
		{"ERA5", forecastSection1(228, 128, 23, 9, 1025), time.Hour},
		{"members of ERA5", forecastSection1(228, 128, 23, 9, 1030), 3 * time.Hour},
		{"long window of ERA5", forecastSection1(228, 128, 23, 9, 1249), 0},
		{"ERA6", forecastSection1(228, 128, 40, 9, 1025), 0},
		{"monthly means of sums", forecastSection1(228, 128, 14, 9, 1075), 0},
		{"an analysis", forecastSection1(228, 128, 1, 2, 1025), 0},
		{"temperature", forecastSection1(130, 128, 1, 11, 1035), 0},
		{"another table", forecastSection1(228, 2, 1, 11, 1035), 0},
		{"no local section", forecastSection1(228, 128, 1, 11, 1035)[:40], 0},
	} {
		if got := intervalECMWF(c.o, lead); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
