import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

open(here('fc.nc.gz'), 'wb').write(bytes.fromhex('1f8b0800000000000003030000000000000000'))
expect('a gzip archive', refusal=dict(code=65, words=['gzip archive', 'gunzip -c', 'fc.nc.gz > ']))
