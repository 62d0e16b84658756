package samples

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m) }
