package main

import (
	"encoding/json"

	"github.com/ensemble-weather/ensemble/io/decode/wire"
)

// versions answers what Hello says already; the cheapest request, for doctor
// and for tests of the pool.
func versions(json.RawMessage, []byte, *wire.Payload) (any, error) {
	return libraries(), nil
}
