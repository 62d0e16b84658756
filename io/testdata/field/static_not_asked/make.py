import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('mask.nc'); f.axes()
f.add('lsm', ('lat', 'lon'), (field(0) > 280)*1., 'f4', units='1'); f.close()
expect('a land mask as a forecast', refusal=dict(code=65, words=['no time', 'static field']))
