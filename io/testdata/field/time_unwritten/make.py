import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(hours=(6, 9.969209968386869e36, 18))
x = fields((2, 3)); f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
x = x[:, [0, 2]]
expect('a record whose time was never written', variables={'2t': variable(np.float32(x), members=[1, 2], leads=['6h', '18h'], fields=4)}, warnings=['record 2 of "time"'], unused=['record 2 of "time"'])
