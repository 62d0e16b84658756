//go:build long

package main

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

func TestLongFault31(t *testing.T) { inTimeZones(t, testseed.All) }
