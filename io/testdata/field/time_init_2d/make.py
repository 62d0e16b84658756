import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# The initialisation depends on time and lag, the lead follows.
f = File('fc.nc')
f.add('time', ('time',), [24., 48.], standard_name='time', units='hours since 2024-03-01')
f.add('reference', ('time', 'lag'), [[0., 12.], [24., 36.]], standard_name='forecast_reference_time', units='hours since 2024-03-01'); f.axes()
x = fields((2, 2)); f.add('t2m', ('time', 'lag', 'lat', 'lon'), x, 'f4', units='K', coordinates='reference'); f.close()
expect('two-dimensional reference times', variables={'2t': variable(np.float32(x), inits=['2024-03-01T00:00Z', '2024-03-01T12:00Z', '2024-03-02T00:00Z', '2024-03-02T12:00Z'], leads=['24h', '12h'], fields=4)})
