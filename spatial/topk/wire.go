package topk

import (
	"encoding/binary"
	"math"

	"github.com/ensemble-weather/ensemble/internal/bfloat16"
)

// A message of m entries has their m indices (int32), then their m values (float32 or
// bfloat16), little-endian.
const indexBytes = 4

// entryBytes returns the size of an entry in a message.
func (o Options) entryBytes() int { return indexBytes + o.valueBytes() }

func (o Options) valueBytes() int {
	if o.BFloat16 {
		return 2
	}
	return 4
}

// overflow returns the least magnitude that is not finite when it is sent.
func (o Options) overflow() uint32 {
	if o.BFloat16 {
		return 0x7f7f8000 // half a unit above the largest bfloat16, 0x7f7f
	}
	return infinite
}

// sent returns the value that a receiver gets for x.
func (r *Reducer) sent(x float32) float32 {
	if r.o.BFloat16 {
		return bfloat16.Value(bfloat16.Round(x))
	}
	return x
}

// encode writes entries to a message of their size; value returns the j-th value.
func (o Options) encode(message []byte, index []int32, value func(j int) float32) {
	values := message[indexBytes*len(index):]
	for j, i := range index {
		binary.LittleEndian.PutUint32(message[indexBytes*j:], uint32(i))
		if o.BFloat16 {
			binary.LittleEndian.PutUint16(values[2*j:], bfloat16.Round(value(j)))
		} else {
			binary.LittleEndian.PutUint32(values[4*j:], math.Float32bits(value(j)))
		}
	}
}

// decode calls f with the entries of a message, in their order.
func (o Options) decode(message []byte, f func(index int32, value float32)) {
	n := len(message) / o.entryBytes()
	values := message[indexBytes*n:]
	for j := range n {
		i := int32(binary.LittleEndian.Uint32(message[indexBytes*j:]))
		if o.BFloat16 {
			f(i, bfloat16.Value(binary.LittleEndian.Uint16(values[2*j:])))
		} else {
			f(i, math.Float32frombits(binary.LittleEndian.Uint32(values[4*j:])))
		}
	}
}
