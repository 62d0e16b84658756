import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('init', ('init',), [0., 366.], units='days since 2000-01-01'); f.add('lead', ('lead',), [1, 2], 'i4', units='months'); f.axes()
x = fields((2, 2)); f.add('t2m', ('init', 'lead', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('leads in months from the first of January, of a leap year and of another', variables={'2t': variable(np.float32(x), inits=['2000-01-01T00:00Z', '2001-01-01T00:00Z'], leads=['744h', '1416h', '1440h'])}, warnings=['leads "lead" are taken for calendar months'])
