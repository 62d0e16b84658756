import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# latCell and lonCell of MPAS without a unit.
k = np.arange(20)
f = File('fc.nc')
f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01')
f.add('latCell', ('nCells',), np.deg2rad(-45 + 4.5*k)); f.add('lonCell', ('nCells',), np.deg2rad(18*k))
f.add('t2m', ('time', 'nCells'), np.array([280. + k]), 'f4', units='K', coordinates='latCell lonCell'); f.close()
expect('points in radian without a unit', refusal=dict(code=65, words=['latCell', 'no unit', 'radian']))
