import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('mask.nc'); f.axes()
x = (field(0) > 280)*1.; f.add('lsm', ('lat', 'lon'), x, 'f4', units='1', standard_name='land_binary_mask'); f.close()
expect('a land mask without a time', static=True, variables={'lsm': variable(x, inits=['-'], leads=['0h'])})
