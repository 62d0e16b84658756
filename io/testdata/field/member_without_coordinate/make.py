import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', (), 0., standard_name='forecast_reference_time', units='hours since 2024-03-01'); f.add('step', ('step',), [6., 12.], standard_name='forecast_period', units='hours'); f.axes()
x = fields((3, 2)); f.add('t2m', ('member', 'step', 'lat', 'lon'), x, 'f4', units='K', coordinates='time'); f.close()
expect('a dimension of members without coordinate', variables={'2t': variable(np.float32(x), members=[1, 2, 3], leads=['6h', '12h'])}, warnings=['"member" has no coordinate'])
