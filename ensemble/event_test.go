package ensemble

import "testing"

func TestParseVariableEvent(t *testing.T) {
	all := func(variable string) VariableAt { return VariableAt{Variable: variable} }
	at := func(variable string, l Level) VariableAt { return VariableAt{variable, l, true} }
	for s, want := range map[string]VariableEvent{
		"t2m>273.15":              {all("2t"), Event{Above, 273.15, 0}, ""},
		"2t < 0 degC":             {all("2t"), Event{Below, 0, 0}, "degC"},
		"10si>17.2m s-1":          {all("10si"), Event{Above, 17.2, 0}, "m s-1"},
		"-5degC<2t<5degC":         {all("2t"), Event{Between, -5, 5}, "degC"},
		"270<t<1e3":               {all("t"), Event{Between, 270, 1000}, ""},
		" gh > -1.5 ":             {all("gh"), Event{Above, -1.5, 0}, ""},
		"5 < 2t < 10 degC ":       {all("2t"), Event{Between, 5, 10}, "degC"},
		"t850>273.15":             {at("t", PressureLevel(850)), Event{Above, 273.15, 0}, ""},
		"t@850hPa > 7 degC":       {at("t", PressureLevel(850)), Event{Above, 7, 0}, "degC"},
		"270<t850<280":            {at("t", PressureLevel(850)), Event{Between, 270, 280}, ""},
		"sot@depth0.1-0.4m<280":   {at("sot", Layer(DepthBelowLand, 0.1, 0.4)), Event{Below, 0, 280}, ""},
		"273 K<t@500hPa < 1e3 K ": {at("t", PressureLevel(500)), Event{Between, 273, 1000}, "K"},
	} {
		got, err := ParseVariableEvent(s)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
		if again, err := ParseVariableEvent(got.String()); err != nil || again != got {
			t.Errorf("%q is printed as %q: %+v, %v", s, got, again, err)
		}
	}
	for _, s := range []string{"", "2t", "2t>", "2t>>3", "2t>=3", "2t>x", "5<2t<3", "1K<2t<2degC", "2t=3", ">3", "2t>1e999", "2t@850hPa>3", "t@>3", "t 850>3", "1<t@850<2"} {
		if got, err := ParseVariableEvent(s); err == nil {
			t.Errorf("%q gives %+v", s, got)
		}
	}
}
