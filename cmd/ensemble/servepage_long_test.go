//go:build long

package main

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

func TestLongServePageOnAllScreens(t *testing.T) { servePage(t, true) }

func TestLongShells(t *testing.T) { completeLines(t, testseed.All) }
