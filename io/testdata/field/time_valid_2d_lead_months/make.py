import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('init', ('init',), [0., 366.], units='days since 2000-01-01'); f.add('lead', ('lead',), [1, 2], 'i4', units='months'); f.add('member', ('member',), [1, 2], 'i4')
f.add('valid_time', ('init', 'lead'), [[31., 60.], [397., 425.]], units='days since 2000-01-01'); f.axes()
x = fields((2, 2, 2)); f.add('t2m', ('init', 'lead', 'member', 'lat', 'lon'), x, 'f4', units='K', coordinates='valid_time'); f.close()
expect('leads in months beside two-dimensional valid times', variables={'2t': variable(np.float32(x), members=[1, 2], inits=['2000-01-01T00:00Z', '2001-01-01T00:00Z'], leads=['744h', '1440h', '1416h'], fields=8)})
