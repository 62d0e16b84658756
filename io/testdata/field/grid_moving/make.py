import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('wrfout.nc', SIMULATION_START_DATE='2024-03-01_00:00:00')
j, i = np.mgrid[0:4, 0:6]
f.add('XLAT', ('Time', 'south_north', 'west_east'), np.array([46 + 0.03*j, 46.1 + 0.03*j]), 'f4', units='degree_north')
f.add('XLONG', ('Time', 'south_north', 'west_east'), np.array([7 + 0.04*i]*2), 'f4', units='degree_east')
f.add('XTIME', ('Time',), [360., 720.], 'f4', units='minutes since 2024-03-01 00:00:00')
f.add('T2', ('Time', 'south_north', 'west_east'), fields((2,)), 'f4', units='K', coordinates='XLONG XLAT XTIME'); f.close()
expect('a grid that moves', refusal=dict(code=65, words=['"XLAT" changes along dimension "Time"']))
