import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', ('time',), [1709272800.], standard_name='time', units='Seconds Since 1970-01-01 01:00:00 +01:00'); f.axes()
x = fields((1,)); f.add('t2m', ('time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('a reference date with a name of UTC', variables={'2t': variable(np.float32(x), inits=['2024-03-01T06:00Z'], leads=['0h'])})
