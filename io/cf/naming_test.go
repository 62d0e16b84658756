package cf

import (
	"testing"
)

// TestGuess: names of own files are read where they are unambiguous and their unit fits.
func TestGuess(t *testing.T) {
	for _, c := range []struct{ own, identified, unit, want string }{
		{"T850_ens", "T850_ens", "K", "t 850hPa"},
		{"T850_ens", "t", "K", "t 850hPa"}, // by its standard name
		{"ens_t_850hPa", "", "degC", "t 850hPa"},
		{"era5_Z500", "", "m2 s-2", "z 500hPa"},
		{"X850", "t", "K", "t 850hPa"},
		{"T2M_ens", "", "degC", "2t"},
		{"fc_T2M", "", "", "2t"},
		{"rain_obs", "", "mm", "tp"},
		{"temperature_2m_ens", "", "K", "t 2m"},
		{"X850", "", "K", ""},           // no quantity
		{"T850_500", "", "K", ""},       // two levels
		{"T850_ens", "", "m s-1", ""},   // the unit of another quantity
		{"T37", "", "K", ""},            // no pressure level
		{"tp_850", "", "mm", ""},        // a variable without levels
		{"T850_ens", "u", "m s-1", ""},  // contradicts the attributes
		{"u", "t", "K", ""},             // no level
		{"T850_max", "", "K", ""},       // an extreme is another quantity
		{"T850_anomaly", "", "K", ""},   // and so is an anomaly
		{"rain_rate", "", "mm h-1", ""}, // a rate is no amount
	} {
		name, level, ok := guess(c.own, c.identified, c.unit)
		got := name
		if level != nil {
			got += " " + level.String()
		}
		if ok != (c.want != "") || got != c.want {
			t.Errorf("%s (%s): %q, want %q", c.own, c.unit, got, c.want)
		}
	}
}
