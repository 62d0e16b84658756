import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
x = fields((2, 1))
f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K', missing_value='none'); f.close()
expect('missing_value as a word', variables={'2t': variable(x, members=[1, 2])}, warnings=['missing_value is the text "none", which is not a number'])
