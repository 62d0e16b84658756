import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01'); f.axes()
names = np.array([list(n.ljust(4)) for n in ('ctl', 'p01', 'p02')], 'S1')
f.add('ensemble_member', ('ensemble', 'length'), names, 'S1', standard_name='realization')
x = fields((3, 1)); f.add('t2m', ('ensemble', 'time', 'lat', 'lon'), x, 'f4', units='K', coordinates='ensemble_member'); f.close()
expect('members as texts', variables={'2t': variable(np.float32(x), members=[1, 2, 3])}, warnings=['members of "ensemble_member" are texts', 'and it has no lead'])
