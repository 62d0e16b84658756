package jobs

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/quantise"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// The configuration accepts the methods of the engine.
func TestQuantiseMethods(t *testing.T) {
	var names []string
	for _, m := range quantise.Methods {
		names = append(names, string(m))
	}
	if got, want := strings.Join(config.QuantiseMethods, " "), strings.Join(names, " "); got != want {
		t.Errorf("methods %s, want %s", got, want)
	}
}
