package config

import (
	"strings"
	"testing"
)

// Regions are read by name and by bounds; others are refused with what is valid.
func TestRegions(t *testing.T) {
	for set, fix := range map[string]string{
		"[europe, tropics]":             "",
		`["alps=43:48:5:16", europe]`:   "",
		"[europ]":                       "northern_extratropics",
		`["alps=43:48:5"]`:              "SOUTH:NORTH",
		`["alps=48:43:5:16"]`:           "SOUTH:NORTH",
		"[europe, europe]":              "a name of its own",
		`["europe=43:48:5:16", europe]`: "a name of its own",
		`["all=43:48:5:16"]`:            "a name of its own",
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: []string{"regions=" + set}})
		if fix == "" && err != nil || fix != "" && (err == nil || !strings.Contains(err.Error(), fix)) {
			t.Errorf("%s: error %v, want %q", set, err, fix)
		}
	}
}
