//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// combine prepares combine: the weights of a layer as a linear combination of shared
// templates.
//
// It runs the loop of the definition in float32, once over the weights, in a step that
// reads these several times. The same holds for its gradients.
//
// Source: Plummer et al. 2020, arXiv:2006.10598, section 3.
func combine(_ *Backend, q backend.Request) (backend.Kernel, error) {
	store, coefficients, w, a := q.In[0].F32, q.In[1].F32, q.Out.F32, q.Attrs.(op.Templates)
	return kernel("loop", func() { op.CombineTemplates(a, w, store, coefficients) })
}

// combineGradStore prepares combine_grad_store, the gradient with respect to the
// templates.
func combineGradStore(_ *Backend, q backend.Request) (backend.Kernel, error) {
	coefficients, dw, store, a := q.In[0].F32, q.In[1].F32, q.Out.F32, q.Attrs.(op.StoreTemplates)
	return kernel("loop", func() { op.CombineTemplatesGradStore(a.Templates, store, coefficients, dw) })
}

// combineGradCoefficients prepares combine_grad_coefficients, the gradient with respect
// to the coefficients.
func combineGradCoefficients(_ *Backend, q backend.Request) (backend.Kernel, error) {
	store, dw, coefficients, a := q.In[0].F32, q.In[1].F32, q.Out.F32, q.Attrs.(op.Templates)
	return kernel("loop", func() { op.CombineTemplatesGradCoefficients(a, coefficients, store, dw) })
}
