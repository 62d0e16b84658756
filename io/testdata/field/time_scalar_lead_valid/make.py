import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# The standard name says that the time is valid.
f = File('fc.nc')
f.add('time', ('time',), [12., 36.], units='hours since 2024-03-01', standard_name='time'); f.add('step', (), 12., units='hours'); f.axes()
x = fields((2,)); f.add('t2m', ('time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('a scalar lead beside a valid time', variables={'2t': variable(np.float32(x), inits=['2024-03-01T00:00Z', '2024-03-02T00:00Z'], leads=['12h'])})
