import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# cfgrib's names without its attributes.
f = File('fc.nc')
f.add('time', ('time',), [0., 24.], units='hours since 2024-03-01'); f.add('step', ('step',), [6., 12.], units='hours')
f.add('valid_time', ('time', 'step'), [[6., 12.], [30., 36.]], units='hours since 2024-03-01'); f.axes()
x = fields((2, 2)); f.add('t2m', ('time', 'step', 'lat', 'lon'), x, 'f4', units='K', coordinates='valid_time'); f.close()
expect('valid_time beside time', variables={'2t': variable(np.float32(x), inits=['2024-03-01T00:00Z', '2024-03-02T00:00Z'], leads=['6h', '12h'])})
