package main

import (
	"encoding/json"

	"github.com/ensemble-weather/ensemble/io/decode/wire"
)

// versions returns what Hello already contains. It is the cheapest request, used by
// doctor and by the tests of the pool.
func versions(json.RawMessage, []byte, *wire.Payload) (any, error) {
	return libraries(), nil
}
