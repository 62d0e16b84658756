// Package bench measures training steps and predictions of networks: times, arithmetic, bytes and memory, on
// one process or on ranks, and checks that ranks compute what one does:
//
//	r, err := bench.Run(ctx, bench.Options{Cases: []bench.Case{c}, Seconds: 3})
package bench
