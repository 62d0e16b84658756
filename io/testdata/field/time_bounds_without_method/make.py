import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(hours=(6, 12))
f.add('time_bnds', ('time', 'bnds'), [[0., 6.], [6., 12.]]); f.d.variables['time'].setncattr('bounds', 'time_bnds')
x = fields((2, 2)); f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('bounds of time and a temperature without cell_methods', variables={'2t': variable(np.float32(x), members=[1, 2], leads=['6h', '12h'])}, warnings=['ncatted -a cell_methods,t2m,c,c,"time: mean" FILE'])
