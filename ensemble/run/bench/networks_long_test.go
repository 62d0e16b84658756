//go:build long

package bench

import "testing"

func TestLongPricesOnNetworks(t *testing.T) { pricesOnNetworks(t, 64, 256) }
