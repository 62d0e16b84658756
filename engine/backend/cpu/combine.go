//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// combine serves combine, by the loop of its definition in float32: it passes once over the weights of
// a layer, in a step that passes over them several times. So do its gradients.
func combine(_ *Backend, q backend.Request) (backend.Kernel, error) {
	store, coefficients, w, a := q.In[0].F32, q.In[1].F32, q.Out.F32, q.Attrs.(op.Templates)
	return kernel("loop", func() { op.CombineTemplates(a, w, store, coefficients) })
}

// combineGradStore serves combine_grad_store.
func combineGradStore(_ *Backend, q backend.Request) (backend.Kernel, error) {
	coefficients, dw, store, a := q.In[0].F32, q.In[1].F32, q.Out.F32, q.Attrs.(op.StoreTemplates)
	return kernel("loop", func() { op.CombineTemplatesGradStore(a.Templates, store, coefficients, dw) })
}

// combineGradCoefficients serves combine_grad_coefficients.
func combineGradCoefficients(_ *Backend, q backend.Request) (backend.Kernel, error) {
	store, dw, coefficients, a := q.In[0].F32, q.In[1].F32, q.Out.F32, q.Attrs.(op.Templates)
	return kernel("loop", func() { op.CombineTemplatesGradCoefficients(a, coefficients, store, dw) })
}
