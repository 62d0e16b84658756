import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

import gzip
f = File('fc.nc'); f.ensemble(); f.add('t2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K'); f.close()
open(here('fc.nc.gz'), 'wb').write(gzip.compress(open(here('fc.nc'), 'rb').read(), mtime=0)); os.remove(here('fc.nc'))
expect('a gzip archive', refusal=dict(code=65, words=['gzip archive', 'gunzip -c', 'fc.nc.gz > ']))
