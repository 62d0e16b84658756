import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# WRF: coordinates are repeated for each time; the initialisation is a global attribute.
f = File('wrfout.nc', SIMULATION_START_DATE='2024-03-01_00:00:00')
j, i = np.mgrid[0:4, 0:6]
f.add('XLAT', ('Time', 'south_north', 'west_east'), np.array([46 + 0.03*j - 0.001*i*i]*2), 'f4', units='degree_north', MemoryOrder='XY ')
f.add('XLONG', ('Time', 'south_north', 'west_east'), np.array([7 + 0.04*i + 0.001*j*i]*2), 'f4', units='degree_east')
f.add('XTIME', ('Time',), [360., 720.], 'f4', units='minutes since 2024-03-01 00:00:00', description='minutes since 2024-03-01 00:00:00')
x = fields((2,)); f.add('T2', ('Time', 'south_north', 'west_east'), x, 'f4', units='K', coordinates='XLONG XLAT XTIME', description='TEMP at 2 M'); f.close()
expect('output of WRF', variables={'2t': variable(np.float32(x), leads=['6h', '12h'], inits=['2024-03-01T00:00Z'], levels=['2m'])})
