package partial

// buffer is the send buffer of a rank. Its lock is that of the sequence.
type buffer interface {
	// put stores the contribution of one step. It never changes a vector that take returned.
	put(x []float32)
	// take returns the vector that the rank contributes now. spare is memory of that length
	// with zeros, which the buffer may keep. fresh reports whether the rank has computed the
	// current step, and its contribution is included.
	take(spare []float32, fresh bool) []float32
}

// gradientSum is the send buffer of eager-SGD: the sum of the gradients that no operation
// has taken yet. Two values follow the sum: 1 if the gradient of the current step is
// included, and the number of gradients. Their sums over ranks are exact up to 2²⁴.
type gradientSum struct{ sum []float32 }

// gradientTail is the number of values after the gradient.
const gradientTail = 2

// put adds a gradient; nil is none. The sum of one gradient has its bits, −0 included.
func (b *gradientSum) put(gradient []float32) {
	count := &b.sum[len(b.sum)-1]
	switch {
	case gradient == nil:
		return
	case *count == 0:
		copy(b.sum, gradient)
	default:
		for i, v := range gradient {
			b.sum[i] += v
		}
	}
	*count++
}

// take returns the sum and leaves zeros.
func (b *gradientSum) take(spare []float32, fresh bool) []float32 {
	out := b.sum
	b.sum = spare
	if fresh {
		out[len(out)-gradientTail] = 1
	}
	return out
}

// latestModel is the send buffer of WAGMA-SGD: the weights after the last local update. One
// value follows them: 1 if they are those of the current step.
type latestModel struct{ model []float32 }

// modelTail is the number of values after the weights.
const modelTail = 1

// put replaces the weights.
func (b *latestModel) put(w []float32) { copy(b.model, w) }

// take returns a copy of the weights.
func (b *latestModel) take(spare []float32, fresh bool) []float32 {
	copy(spare, b.model)
	if fresh {
		spare[len(spare)-modelTail] = 1
	}
	return spare
}
