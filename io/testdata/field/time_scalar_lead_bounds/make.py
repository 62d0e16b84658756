import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Bounds say so too, because an initialisation has none.
f = File('fc.nc')
f.add('time', ('time',), [12., 36.], units='hours since 2024-03-01', bounds='time_bnds'); f.add('time_bnds', ('time', 'two'), [[0., 12.], [24., 36.]]); f.add('step', (), 12., units='hours'); f.axes()
x = fields((2,), 0.); f.add('tp', ('time', 'lat', 'lon'), x, 'f4', units='kg m-2', cell_methods='time: sum'); f.close()
expect('a scalar lead beside a time with bounds', variables={'tp': variable(np.float32(x), inits=['2024-03-01T00:00Z', '2024-03-02T00:00Z'], leads=['12h'], statistic='sum', interval='12h')})
