import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('orography.nc'); f.axes()
x = field(0) - 200; f.add('orog', ('lat', 'lon'), x/1000, 'f8', units='km', standard_name='surface_altitude'); f.close()
expect('an orography without a time, in km', static=True, variables={'orog': variable(np.float32(x), inits=['-'], leads=['0h'], unit='m')})
