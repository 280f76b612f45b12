"""pytest only: finds the trainer's source, and turns helpers.Skip into a skip."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "src")]
