import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Coordinates (y, x), and a variable (x, y): rows are those along which latitudes change.
j, i = np.mgrid[0:4, 0:6]
f = File('fc.nc'); f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01')
f.add('lat', ('y', 'x'), 46 + 0.03*j - 0.001*i*i, units='degrees_north'); f.add('lon', ('y', 'x'), 7 + 0.04*i + 0.001*j*i, units='degrees_east')
x = fields((1,)); f.add('t2m', ('time', 'x', 'y'), x.transpose(0, 2, 1), 'f4', units='K', coordinates='lon lat'); f.close()
expect('a variable by columns on two-dimensional coordinates', variables={'2t': variable(np.float32(x), grid='projected 6x4, 46.09 to 45.975 N, 7 to 7.2 E')})
