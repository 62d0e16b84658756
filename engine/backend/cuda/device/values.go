package device

import (
	"fmt"
	"math"
)

// PackArguments converts the arguments of a call to eight bytes each, and returns their
// types: p Pointer, i int32, l int64, u uint32, v uint64, f float32.
//
// Errors: an argument of another type.
func PackArguments(args []any) (values []uint64, kinds string, err error) {
	k := make([]byte, len(args))
	for i, a := range args {
		var v uint64
		switch a := a.(type) {
		case Pointer:
			v, k[i] = uint64(uintptr(a)), 'p'
		case int32:
			v, k[i] = uint64(uint32(a)), 'i'
		case int64:
			v, k[i] = uint64(a), 'l'
		case uint32:
			v, k[i] = uint64(a), 'u'
		case uint64:
			v, k[i] = a, 'v'
		case float32:
			v, k[i] = uint64(math.Float32bits(a)), 'f'
		default:
			return nil, "", fmt.Errorf("argument %d: type %T, want Pointer, int32, int64, uint32, uint64 or float32", i, a)
		}
		values = append(values, v)
	}
	return values, string(k), nil
}
